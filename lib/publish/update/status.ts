/** State of a home's updates (docs/design/contracts/02-http.md §2, "Updates"). */
import { join } from "node:path";
import { imageManifest, installedImages, type InstalledManifest } from "../../release/asset/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { compareSemVer } from "../../base/semver/mod.ts";
import { displayUrl } from "../../base/download/mod.ts";
import { type CheckedChannel, ReleaseMemory, standingOfBinary } from "../../release/mod.ts";
import { readHistory } from "./history.ts";
import { compareProfiles } from "./profile.ts";
import { type InstalledAssets, UpdateCheck, type UpdateStatus } from "./schema.ts";
import type { UpdateSource } from "./source.ts";

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
