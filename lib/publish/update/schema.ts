/** Shapes of updates, for the HTTP API. */
import { z } from "zod";
import { Change } from "./history.ts";

/** An installed image: its manifest, and where that came from. */
export const InstalledAssets = z.object({
  profile_id: z.string(),
  version: z.string(),
  manifest_blake3: z.string(),
  deprecated: z.boolean().describe("its publisher says so in the manifest"),
  origin: z.enum(["package", "update"]).optional().describe("absent: put there by hand"),
  source: z.string().optional().describe("address of the manifest, without password and query"),
  fetched_at: z.string().optional(),
  packaged_at: z.string().optional(),
  package_version: z.string().optional(),
  is_corps: z.boolean().describe("the source is the manifest_url of corp.toml"),
});
export type InstalledAssets = z.infer<typeof InstalledAssets>;

/** Result of the last check of the channel. */
export const UpdateCheck = z.object({
  at: z.iso.datetime(),
  url: z.string(),
  channel: z.string(),
  problem: z.string().optional().describe("why the check failed; the rest is of no check then"),
  release: z.string().optional().describe("version of the channel's release to install"),
  status: z.enum(["current", "supported", "deprecated", "revoked"]).optional(),
  sbx: z.string().optional().describe("version of sbx in it, if it is newer than this one"),
  profiles: z.array(z.object({
    id: z.string(),
    revision: z.string(),
    installed: z.string().optional(),
    state: z.enum(["new", "newer", "same", "older", "yours"]).describe("yours: changed by hand, and kept"),
  })).optional(),
});
export type UpdateCheck = z.infer<typeof UpdateCheck>;

export const UpdateStatus = z.object({
  version: z.string(),
  standing: z.enum(["current", "supported", "deprecated", "revoked"]).optional().describe(
    "of this version of sbx, by the channels that this home has seen",
  ),
  source: z.object({ url: z.string(), channel: z.string(), is_corps: z.boolean() }).optional().describe(
    "channel that is followed; absent: none is configured",
  ),
  schedule: z.object({
    interval_secs: z.int().optional().describe("absent: no checks by themselves"),
    next_at: z.string().optional(),
    reason: z.string(),
  }).optional(),
  last_check: UpdateCheck.optional(),
  assets: z.array(InstalledAssets),
  problems: z.array(z.string()),
  history: z.array(Change).describe("the latest changes, the newest first"),
});
export type UpdateStatus = z.infer<typeof UpdateStatus>;
