/**
 * A home's memory of the release graphs that it follows (docs/design/contracts/10-release.md §10,
 * "Memory").
 */
import { z } from "zod";
import { ChannelId, ReleaseVersion, Status } from "../schema.ts";

const hash = z.string().regex(/^[0-9a-f]{64}$/);

const RememberedProfile = z.strictObject({
  id: z.string(),
  revision: z.string(),
  /** of the profile document */
  blake3: hash,
  /** BLAKE3 of the boot files that the document pins */
  assets: z.array(hash),
});
export type RememberedProfile = z.infer<typeof RememberedProfile>;

/** A manifest that was fetched and verified. */
const RememberedManifest = z.strictObject({
  status: Status,
  /** of the manifest's bytes, which never change */
  sha256: hash,
  binaries: z.array(z.strictObject({ name: z.string(), version: z.string() })),
  profiles: z.array(RememberedProfile),
});
export type RememberedManifest = z.infer<typeof RememberedManifest>;

/** One channel at one address. */
const Followed = z.strictObject({
  url: z.string(),
  channel: ChannelId,
  /** of the newest index */
  generated_at: z.iso.datetime(),
  checked_at: z.iso.datetime(),
  manifests: z.record(ReleaseVersion, RememberedManifest),
});
export type Followed = z.infer<typeof Followed>;

/** A downgrade that a person allowed. */
const Downgrade = z.strictObject({
  at: z.iso.datetime(),
  by: z.string(),
  url: z.string(),
  channel: ChannelId,
  /** accepted breaches, one sentence each */
  accepted: z.array(z.string()),
});
export type Downgrade = z.infer<typeof Downgrade>;

export const MemoryFile = z.strictObject({
  schema: z.literal("sbx.release_memory.v1"),
  followed: z.array(Followed),
  downgrades: z.array(Downgrade),
});
export type MemoryFile = z.infer<typeof MemoryFile>;

export const EMPTY: MemoryFile = { schema: "sbx.release_memory.v1", followed: [], downgrades: [] };
