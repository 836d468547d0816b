/** State of a home's updates (docs/design/contracts/02-http.md §2, "Updates"). */
import { join } from "node:path";
import { z } from "zod";
import { imageManifest, installedImages, type InstalledManifest } from "../../release/asset/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { compareSemVer } from "../../base/semver/mod.ts";
import { displayUrl } from "../../base/download/mod.ts";
import { type CheckedChannel, ReleaseMemory, standingOfBinary } from "../../release/mod.ts";
import { Change, readHistory } from "./history.ts";
import { compareProfiles } from "./profile.ts";
import type { UpdateSource } from "./source.ts";

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

/** Describes the installed artifacts, and the last check's findings. */
export async function updateStatus(
  home: Home,
  source: UpdateSource | undefined,
  manifestUrl: string | undefined,
): Promise<UpdateStatus> {
  const problems: string[] = [];
  const memory = await new ReleaseMemory(home).read().catch(({ message }) => void problems.push(message));
  const standing = memory && standingOfBinary(memory, "sbx", VERSION)?.status;
  const last_check = await readCheck(home);
  return {
    version: VERSION,
    ...(standing && { standing }),
    ...(source && {
      source: { url: displayUrl(source.index), channel: source.channel, is_corps: source.isCorps },
    }),
    ...(last_check && { last_check }),
    assets: await installedAssets(home, manifestUrl, problems),
    problems,
    history: await readHistory(home),
  };
}

async function installedAssets(
  home: Home,
  manifestUrl: string | undefined,
  problems: string[],
): Promise<InstalledAssets[]> {
  const found = await Promise.all((await installedImages(home)).map(async (profile) => {
    try {
      return describeAssets(profile, await imageManifest(home, profile), manifestUrl);
    } catch (error) {
      problems.push((error as Error).message);
      return [];
    }
  }));
  return found.flat();
}

function describeAssets(
  profile_id: string,
  { manifest: { assets: { current, releases } }, bytes, origin }: InstalledManifest,
  manifestUrl: string | undefined,
): InstalledAssets {
  const corps = manifestUrl === undefined ? undefined : displayUrl(new URL(manifestUrl));
  const { schema: _, ...rest } = origin ?? { schema: undefined };
  return {
    profile_id,
    version: current,
    manifest_blake3: blake3(bytes),
    deprecated: releases[current].deprecated,
    ...rest,
    is_corps: origin?.source !== undefined && origin.source === corps,
  };
}

/** Result of a check, for {@linkcode saveCheck}. */
export async function describeCheck(
  home: Home,
  source: UpdateSource,
  checked: CheckedChannel,
): Promise<UpdateCheck> {
  const { record } = checked;
  const sbx = newerProgram(checked);
  return {
    at: new Date().toISOString(),
    url: displayUrl(source.index),
    channel: source.channel,
    release: record.version,
    status: record.status,
    ...(sbx && { sbx }),
    profiles: await compareProfiles(home, checked),
  };
}

/** Version of sbx in a release. @returns undefined unless it is newer than this one */
export function newerProgram({ manifest }: Pick<CheckedChannel, "manifest">): string | undefined {
  const version = manifest.binaries.find(({ name }) => name === "sbx")?.version;
  return version !== undefined && isNewer(version) ? version : undefined;
}

function isNewer(version: string): boolean {
  try {
    return compareSemVer(version, VERSION) > 0;
  } catch {
    return false;
  }
}

/** Keeps the result of a check over restarts. */
export async function saveCheck({ dir }: Home, check: UpdateCheck): Promise<void> {
  await Deno.mkdir(join(dir, "release"), { recursive: true, mode: 0o700 });
  await writeAtomic(join(dir, "release", "check.json"), JSON.stringify(check) + "\n");
}

/** An unreadable file counts as missing: the next check writes another. */
async function readCheck({ dir }: Home): Promise<UpdateCheck | undefined> {
  try {
    return UpdateCheck.parse(JSON.parse(await Deno.readTextFile(join(dir, "release", "check.json"))));
  } catch {
    return undefined;
  }
}
