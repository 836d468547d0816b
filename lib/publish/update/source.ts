/**
 * Sources of updates: corp's channel, else the environment's; and the schedule of checks: `refresh_policy`
 * of corp, manifest and profiles (docs/guides/updates.md).
 */
import { SbxError } from "../../base/error/mod.ts";
import type { CorpState } from "../../config/corp/mod.ts";
import { fetchSmall } from "../../base/download/mod.ts";
import {
  checkChannel,
  type CheckedChannel,
  findKeyFiles,
  parseIndexUrl,
  readReleaseKeys,
  type ReleaseKeys,
  ReleaseMemory,
} from "../../release/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { REFRESH_POLICY } from "../../config/corp/schema.ts";

/** Channel of hosts that name none. */
const DEFAULT_CHANNEL = "stable";

/** A channel that a home follows. */
export interface UpdateSource {
  index: URL;
  channel: string;
  /** corp names it */
  isCorps: boolean;
}

type Env = { get(name: string): string | undefined };

/**
 * The channel to follow: `[release]` of corp.toml, else `SBX_RELEASE_CHANNELS_URL`.
 * @returns undefined without one
 * @throws {SbxError} `corp.closed`, `release.url.invalid`
 */
export function updateSource(corp: CorpState, env: Env = Deno.env): UpdateSource | undefined {
  if (corp.status === "closed") {
    throw new SbxError("corp.closed", `the channel that corp names is unknown: ${corp.error.message}`, {
      cause: corp.error,
      hint: "ask your administrator to repair corp.toml",
    });
  }
  const release = "config" in corp ? corp.config.file.release : undefined;
  const url = release?.channels_url ?? (env.get("SBX_RELEASE_CHANNELS_URL") || undefined);
  if (url === undefined) return undefined;
  return {
    index: parseIndexUrl(url),
    channel: release?.channel ?? DEFAULT_CHANNEL,
    isCorps: release?.channels_url !== undefined,
  };
}

/** @throws {SbxError} `update.source.not_found`: no channel is named */
export function requireSource(corp: CorpState): UpdateSource {
  const source = updateSource(corp);
  if (source) return source;
  throw new SbxError("update.source.not_found", "no release channel is configured", {
    hint:
      "name one: SBX_RELEASE_CHANNELS_URL=https://HOST/channels.json, or [release] channels_url of corp.toml; " +
      "sbx update --assets --manifest URL installs assets without one",
  });
}

/**
 * Fetches and verifies the state of a channel. Plain http is as good as https: the index is signed.
 *
 * @param downgrade accepts an older state than one seen before; it is recorded
 * @throws {SbxError} `release.…`, `assets.download_failed`
 */
export async function fetchChannel(
  home: Home,
  corp: CorpState,
  { index, channel }: UpdateSource,
  downgrade?: { by: string },
): Promise<CheckedChannel> {
  const keys = await releaseKeysOf(corp);
  return await checkChannel({
    index,
    channel,
    keys,
    memory: new ReleaseMemory(home),
    fetch: fetchDocument,
    ...(downgrade && { downgrade }),
  });
}

/** Keys that verify releases here. @throws {SbxError} `release.keys.missing`; errors of the files */
export async function releaseKeysOf(corp: CorpState): Promise<ReleaseKeys> {
  const terms = "config" in corp ? { release: corp.config.file.release, path: corp.config.path } : undefined;
  return await readReleaseKeys(await findKeyFiles(terms));
}

/** Fetches a document of a release. @throws {SbxError} `assets.not_found` */
export async function fetchDocument(url: URL, max: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await fetchSmall(url, max);
  if (bytes) return bytes;
  const { protocol, host, pathname } = url;
  throw new SbxError("assets.not_found", `there is nothing at ${protocol}//${host}${pathname}`, {
    hint: "check the address of the channel; a channel that disappeared is a matter for its publisher",
  });
}

/** Shortest and longest interval, and the default for hosts whose files name no interval, in `s`. */
const HOUR = 3600;
const INTERVAL_MIN = HOUR;
const INTERVAL_MAX = 30 * 24 * HOUR;
const INTERVAL = 24 * HOUR;
const UNITS: Record<string, number> = { m: 60, h: HOUR, d: 24 * HOUR };

/**
 * Reads a policy such as `30m`, `24h` or `7d`, within the bounds; `off` is never.
 * @returns undefined for other text
 */
export function parsePolicy(text: string): number | "off" | undefined {
  if (text === "off") return "off";
  const [, count, unit] = text.match(REFRESH_POLICY) ?? [];
  if (count === undefined) return undefined;
  return Math.min(Math.max(Number(count) * UNITS[unit], INTERVAL_MIN), INTERVAL_MAX);
}

/** Policies of a home: corp's alone if it exists, else the shortest of the others. */
export function intervalOf(corp: string | undefined, others: readonly string[]): number | "off" {
  const corps = corp === undefined ? undefined : parsePolicy(corp);
  if (corps !== undefined) return corps;
  const seconds = others.map(parsePolicy).filter((each) => typeof each === "number");
  return seconds.length > 0 ? Math.min(...seconds) : INTERVAL;
}

/** Spreads the checks of many hosts: nine to eleven tenths of the interval. @param random 0 to 1 */
export function jittered(seconds: number, random = Math.random()): number {
  return Math.round(seconds * (0.9 + 0.2 * random));
}
