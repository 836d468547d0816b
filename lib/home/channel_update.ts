/**
 * Installation from a channel by a program beside the service, which need not run, over the host's network
 * by the settings of the service.
 */
import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import type { ProgressSink } from "../base/progress/mod.ts";
import type { CheckedChannel, ReleaseKeys } from "../release/mod.ts";
import {
  compareProfiles,
  describeCheck,
  fetchChannel,
  fetchPins,
  installProfile,
  installProgram,
  type MachinePlaces,
  type OfferedProfile,
  type ProgramChange,
  programPath,
  releaseKeysOf,
  requireSource,
  requireUnowned,
  restoreProgram,
  saveCheck,
  type UpdateSource,
} from "../publish/update/mod.ts";
import { changeAssets } from "../release/asset/mod.ts";
import { loadProfile } from "../config/profile/mod.ts";
import { corpPlaces, CorpStore } from "../config/corp/mod.ts";
import { bundleLayer } from "../fleet/layer/mod.ts";
import { useHostNetwork } from "../base/proxy/mod.ts";
import { loadDefinitions, SettingsStore } from "../config/settings/mod.ts";
import { networkOf } from "./contract.ts";
import { checkCorp, checkSetting } from "./value_check/mod.ts";

export interface ChannelUpdateOptions {
  home: Home;
  /** profiles to install; empty: all of the channel */
  ids: readonly string[];
  allowDowngrade: boolean;
  /** the stage `profiles` counts bytes */
  progress: ProgressSink;
  onWait?: () => void;
}

/** Result of an installation. */
export interface ChannelUpdate {
  release: string;
  profiles: OfferedProfile[];
  /** version of sbx in the release, if it is newer */
  sbx?: string;
  /** breaches accepted with `--allow-downgrade`, one sentence each */
  accepted: string[];
}

/**
 * Installs the new and newer profiles of the release of the channel that this home follows.
 *
 * @throws {SbxError} the first failure, after the other profiles are installed: `update.source.not_found`,
 * `profile.not_found`, `release.…`, `assets.…`
 */
export async function updateFromChannel(options: ChannelUpdateOptions): Promise<ChannelUpdate> {
  const { home, allowDowngrade } = options;
  const { source, checked } = await channelOf(home, allowDowngrade, "sbx update profiles");
  const { profiles, failures, sbx } = await installOffered(checked, source, options);
  for (const error of failures.values()) throw error;
  const { accepted, record } = checked;
  return { release: record.version, profiles, accepted, ...(sbx && { sbx }) };
}

/** Result of {@linkcode installOffered}. */
export interface InstalledProfiles extends Pick<ChannelUpdate, "profiles" | "sbx"> {
  /** by id: a profile that cannot be installed does not keep others back */
  failures: Map<string, unknown>;
}

/**
 * Installs the new and newer profiles of a checked channel, and keeps the result of that check.
 *
 * @throws {SbxError} `profile.not_found`
 */
export async function installOffered(
  checked: CheckedChannel,
  source: UpdateSource,
  options: ChannelUpdateOptions,
): Promise<InstalledProfiles> {
  const { home, ids } = options;
  const entries = checked.manifest.profiles.filter(({ id }) => ids.length === 0 || ids.includes(id));
  const missing = ids.find((id) => !entries.some((entry) => entry.id === id));
  if (missing !== undefined) {
    throw new SbxError("profile.not_found", `release ${checked.record.version} has no profile "${missing}"`, {
      hint: `it has ${checked.manifest.profiles.map(({ id }) => id).join(", ") || "none"}`,
    });
  }
  const offered = await compareProfiles(home, checked);
  const profiles = offered.filter(({ id }) => entries.some((entry) => entry.id === id));
  const failures = new Map<string, unknown>();
  for (const each of profiles.filter(({ state }) => state !== "yours")) {
    const entry = entries.find(({ id }) => id === each.id)!;
    const work = each.state === "same"
      ? fetchAgain(each.id, source, options)
      : installProfile(entry, each, { ...options, source });
    await work.catch((error) => failures.set(each.id, error));
  }
  const check = await describeCheck(home, source, checked);
  await saveCheck(home, check);
  return { profiles, failures, ...(check.sbx && { sbx: check.sbx }) };
}

/** Fetches missing files of an installed profile. */
async function fetchAgain(
  id: string,
  { index }: UpdateSource,
  { home, progress, onWait }: ChannelUpdateOptions,
): Promise<void> {
  const profile = await loadProfile(home, id);
  await changeAssets(
    home,
    `fetching the files of profile "${id}"`,
    () => fetchPins(home, profile, progress, index),
    onWait,
  );
}

/** Options of {@linkcode updateProgram}. */
export interface ProgramUpdateOptions extends Pick<ChannelUpdateOptions, "home" | "progress" | "onWait"> {
  /** file of the program, by default this one's */
  path?: string;
  /** where other users' revocations are, by default this machine's places */
  machine?: MachinePlaces;
  allowDowngrade: boolean;
  /** puts the previous program back instead */
  rollback: boolean;
}

export interface ProgramUpdate extends ProgramChange {
  /** breaches accepted with `--allow-downgrade`, one sentence each */
  accepted: string[];
  /** why the channel could not be asked before a rollback */
  unasked?: string;
}

/**
 * Installs the program of the release of the channel that this home follows, or the previous one again.
 * Before that, the channel's revocations are fetched.
 *
 * @throws {SbxError} `update.program.source`, `update.program.owned`, `update.program.not_found`,
 * `update.program.failed`, `assets.downgrade`, `update.source.not_found`, `release.…`
 */
export async function updateProgram(
  { rollback, ...given }: ProgramUpdateOptions,
): Promise<ProgramUpdate> {
  const { home, allowDowngrade, path = await programPath() } = given;
  const options = { ...given, path };
  await requireUnowned(path);
  if (rollback) {
    const unasked = await askForRevocations(home);
    const change = await restoreProgram({ ...options, keys: await keysOf(home) });
    return { ...change, accepted: [], ...(unasked && { unasked }) };
  }
  const { source, checked } = await channelOf(home, allowDowngrade, "sbx update program");
  const change = await installProgram(checked, source.index, { ...options, keys: await keysOf(home) });
  return { ...change, accepted: checked.accepted };
}

/** Fetches the channel's revocations since the last check. @returns why it could not be asked */
async function askForRevocations(home: Home): Promise<string | undefined> {
  try {
    await channelOf(home, false, "sbx update program");
  } catch (error) {
    // The index's revocations are remembered before the rest of it is refused.
    return asSbxError(error, "asking the channel").message;
  }
}

/** Keys that verify releases. @returns undefined where none is installed */
export async function keysOf(home: Home): Promise<ReleaseKeys | undefined> {
  const { state } = await useNetworkOf(home);
  return await releaseKeysOf(state).catch((error) => {
    if ((error as SbxError).code === "release.keys.missing") return undefined;
    throw error;
  });
}

/** Checks the channel that this home follows. @param by who accepts an older release, if that is allowed */
async function channelOf(home: Home, allowDowngrade: boolean, by: string) {
  const { state } = await useNetworkOf(home);
  const source = requireSource(state);
  return { source, checked: await fetchChannel(home, state, source, allowDowngrade ? { by } : undefined) };
}

/**
 * Fetches the files that a profile of this home pins by addresses, and its OBOM.
 *
 * @returns installed names of the fetched files
 * @throws {SbxError} `profile.not_found`, `assets.…`
 */
export async function updatePins(
  { home, id, progress, onWait }: Pick<ChannelUpdateOptions, "home" | "progress" | "onWait"> & { id: string },
): Promise<string[]> {
  await useNetworkOf(home);
  const profile = await loadProfile(home, id);
  return await changeAssets(
    home,
    `fetching the files of profile "${id}"`,
    () => fetchPins(home, profile, progress),
    onWait,
  );
}

/**
 * The store of corp's configuration, joined with the fleet's bundle. Every program opens it so: one with
 * fewer checks would keep a broken file as the last good one.
 */
export function openCorp(home: Home): CorpStore {
  return new CorpStore(home, corpPlaces(), checkCorp, bundleLayer(home));
}

/** Activates a home's proxy and certificate authorities for this process. @returns the corp configuration */
export async function useNetworkOf(home: Home): Promise<CorpStore> {
  const corp = openCorp(home);
  const settings = await SettingsStore.open({
    home,
    corp,
    definitions: await loadDefinitions(),
    check: checkSetting,
  });
  useHostNetwork(networkOf(settings));
  return corp;
}
