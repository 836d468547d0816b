/** `sbx update`: everything that a home follows, by a program beside the service (docs/guides/updates.md). */
import {
  imageFolder,
  installAssets,
  installedImages,
  parseManifestUrl,
  readInstalled,
  requireTrustworthy,
} from "../release/asset/mod.ts";
import type { Arch } from "../base/arch/mod.ts";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import type { ProgressSink } from "../base/progress/mod.ts";
import { userName } from "../base/user/mod.ts";
import { VERSION } from "../base/version/mod.ts";
import { CorpStore } from "../config/corp/mod.ts";
import { displayUrl } from "../base/download/mod.ts";
import type { CheckedChannel } from "../release/mod.ts";
import {
  fetchChannel,
  installProgram,
  type MachinePlaces,
  newerProgram,
  programPath,
  recordChange,
  requireUnowned,
  type UpdateSource,
  updateSource,
} from "../publish/update/mod.ts";
import { checkBundle } from "./fleet_bundles.ts";
import { installOffered, keysOf, useNetworkOf } from "./channel_update.ts";

/** One thing that an update looked at. */
export interface UpdateResult {
  what: "channel" | "program" | "rules" | "image" | "profile";
  /** id of a profile, of an image its profile's, of rules and channels the channel's */
  name?: string;
  version?: string;
  /** version before, if it was replaced */
  from?: string;
  /** `kept`: not followed, or changed by hand; `available`: another program must install it */
  state: "installed" | "newest" | "kept" | "available" | "failed";
  /** of a failure */
  code?: string;
  /** why it is kept, or failed */
  reason?: string;
  /** what to do */
  hint?: string;
}

/** Result of an update. */
export interface UpdateReport {
  updates: UpdateResult[];
  /** channel of profiles and the program; absent: none is configured */
  channel?: string;
  /** breaches accepted with `--allow-downgrade`, one sentence each */
  accepted: string[];
}

export interface UpdateAllOptions {
  home: Home;
  arch: Arch;
  /** checks images alone */
  imagesOnly: boolean;
  allowDowngrade: boolean;
  /** file of the program, by default this one's */
  path?: string;
  /** where other users' revocations are, by default this machine's places */
  machine?: MachinePlaces;
  /** the stages `program`, `assets` and `profiles` count bytes */
  progress: ProgressSink;
  onWait?: () => void;
}

/** The images of a home by the addresses of their manifests, and images without one to follow. */
interface ImageSources {
  urls: { url: string; profile?: string }[];
  kept: UpdateResult[];
}

/** Ways to configure a source, for a home without any. */
const SOURCES_HINT =
  "name a release channel: SBX_RELEASE_CHANNELS_URL=https://HOST/channels.json, or [release] " +
  "channels_url and manifest_url of corp.toml; or install an image by its manifest, whose address is followed from " +
  "then on: sbx update --assets --manifest URL; sbx image build code builds an image here";

/**
 * Installs updates from the sources of a home: the program and the profiles of its release channel, the rules
 * of its fleet, and images by the manifests of corp.toml and of the installed images. A failure of one keeps
 * no other one back.
 *
 * @throws {SbxError} `update.source.not_found`: nothing is configured; `corp.closed`, `release.url.invalid`
 */
export async function updateAll(options: UpdateAllOptions): Promise<UpdateReport> {
  const { home, imagesOnly, allowDowngrade } = options;
  const { state } = await useNetworkOf(home);
  const file = "config" in state ? state.config.file : undefined;
  // A corp.toml that cannot be read may name other sources.
  const source = updateSource(state);
  const channel = imagesOnly ? undefined : source;
  const bundles = imagesOnly ? undefined : file?.fleet.bundles_url;
  const images = await imageSources(home, file?.release.manifest_url);
  if (!channel && bundles === undefined && images.urls.length === 0) throw notConfigured(images.kept);
  const updates: UpdateResult[] = [];
  const accepted: string[] = [];
  let checked: CheckedChannel | undefined;
  if (channel) {
    const downgrade = allowDowngrade ? { by: "sbx update" } : undefined;
    checked = await fetchChannel(home, state, channel, downgrade).catch((error) => {
      updates.push(failed({ what: "channel", name: channel.channel }, error));
      return undefined;
    });
  }
  if (channel && checked) {
    accepted.push(...checked.accepted);
    updates.push(...await updateOwnProgram(checked, channel, options));
  }
  if (bundles !== undefined) {
    updates.push(await updateRules(home, file!.fleet.bundles_channel, allowDowngrade));
  }
  updates.push(...await updateImages(images, options));
  if (channel && checked) updates.push(...await updateProfiles(checked, channel, options));
  if (updates.some(({ what, state }) => what === "program" && state === "installed")) {
    // Updates that failed because they need the new program.
    for (const each of updates.filter(({ hint }) => hint?.startsWith("update sbx"))) {
      each.hint = "run sbx update again: the new program installs it";
    }
  }
  return { updates, accepted, ...(channel && { channel: channel.channel }) };
}

function notConfigured(kept: readonly UpdateResult[]): SbxError {
  const reasons = kept.map(({ name, reason }) => `; the image of "${name}" ${reason}`).join("");
  return new SbxError("update.source.not_found", `no source of updates is configured${reasons}`, {
    hint: [...new Set(kept.flatMap(({ hint }) => hint ?? []))].concat(SOURCES_HINT).join("; or "),
  });
}

/** Addresses to follow: that of corp.toml, and that which each image of this home came from. */
async function imageSources(home: Home, corps: string | undefined): Promise<ImageSources> {
  const sources: ImageSources = { urls: corps === undefined ? [] : [{ url: corps }], kept: [] };
  const shown = corps && displayUrl(new URL(corps));
  const own = await installedImages({ assetsDir: home.assetsDir });
  for (const profile of await installedImages(home)) {
    const image = { what: "image", name: profile, state: "kept" } as const;
    if (!own.includes(profile)) {
      sources.kept.push({
        ...image,
        reason: `belongs to all users of this machine, in ${await imageFolder(home, profile)}`,
        hint: "sudo /usr/lib/sbx/update-assets updates it",
      });
      continue;
    }
    // An image that cannot be read has no known source; its repair is an update by an address.
    const { manifest, origin } = await readInstalled(home.assetsDir, profile).catch(() => ({
      manifest: undefined,
      origin: undefined,
    }));
    const version = manifest?.assets.current;
    const reason = await unfollowed(origin?.source);
    if (origin?.source === shown && shown !== undefined) continue;
    if (reason === undefined) sources.urls.push({ url: origin!.source, profile });
    else {
      sources.kept.push({
        ...image,
        ...(version && { version }),
        reason,
        hint: `sbx image build ${profile} builds it; sbx update --assets --manifest URL installs it`,
      });
    }
  }
  return sources;
}

/** Why an image cannot be followed to where it came from. */
async function unfollowed(source: string | undefined): Promise<string | undefined> {
  if (source === undefined) return "has no address that it came from";
  try {
    const url = parseManifestUrl(source);
    requireTrustworthy(url);
    if (url.protocol !== "file:" || await Deno.stat(url).then(({ isFile }) => isFile)) return undefined;
  } catch {
    // Reported below, by the address.
  }
  return `came from ${source}, which ${
    source.startsWith("file:") ? "is gone" : "is trusted by a hash alone"
  }`;
}

async function updateImages(
  { urls, kept }: ImageSources,
  options: UpdateAllOptions,
): Promise<UpdateResult[]> {
  const { home, arch, allowDowngrade, progress, onWait } = options;
  const results: UpdateResult[] = [];
  for (const { url, profile } of urls) {
    // The manifest of corp.toml comes first, and counts alone for its profile.
    if (results.some((each) => each.name === profile && each.state !== "failed")) continue;
    try {
      const { version, previous, fetched, ...image } = await installAssets({
        manifestUrl: url,
        home,
        arch,
        allowDowngrade,
        progress,
        onWait,
        record: async ({ isDowngrade, ...change }) => {
          if (change.from === change.to) return;
          await recordChange(home, { what: "assets", ...change, ...(isDowngrade && { downgrade: true }) });
        },
      });
      const isNew = previous !== version;
      results.push({
        what: "image",
        name: image.profile,
        version,
        ...(isNew && previous && { from: previous }),
        state: isNew || fetched.length > 0 ? "installed" : "newest",
      });
    } catch (error) {
      results.push(failed({ what: "image", name: profile ?? displayUrl(new URL(url)) }, error));
    }
  }
  return [...results, ...kept];
}

/** Installs a newer program; where a package manager or a checkout owns it, says how that updates it. */
async function updateOwnProgram(
  checked: CheckedChannel,
  { index }: UpdateSource,
  { home, path: given, machine, progress, onWait }: UpdateAllOptions,
): Promise<UpdateResult[]> {
  const version = newerProgram(checked);
  const isReleased = checked.manifest.binaries.some(({ name }) => name === "sbx");
  if (version === undefined) {
    return isReleased ? [{ what: "program", version: VERSION, state: "newest" }] : [];
  }
  const program = { what: "program", version } as const;
  try {
    const path = given ?? await programPath();
    await requireUnowned(path);
    const options = { home, path, progress, onWait, machine, keys: await keysOf(home) };
    const { from, changed } = await installProgram(checked, index, options);
    return [{ ...program, ...(from && { from }), state: changed ? "installed" : "newest" }];
  } catch (error) {
    const { code, message: reason, hint } = asSbxError(error, "updating sbx");
    if (code !== "update.program.source" && code !== "update.program.owned") return [failed(program, error)];
    return [{ ...program, state: "available", reason, ...(hint && { hint }) }];
  }
}

async function updateRules(home: Home, name: string, allowDowngrade: boolean): Promise<UpdateResult> {
  const rules = { what: "rules", name } as const;
  try {
    const corp = new CorpStore(home);
    const { state, in_force, problem } = await checkBundle(
      { home, corp },
      allowDowngrade ? { by: userName() } : undefined,
    );
    const version = in_force === null ? {} : { version: in_force };
    if (state === "installed") return { ...rules, ...version, state };
    if (state === "same") return { ...rules, ...version, state: "newest" };
    const reason = state === "none"
      ? problem ?? "no release is for this machine"
      : "newer than that of the channel";
    return { ...rules, ...version, state: "kept", reason };
  } catch (error) {
    return failed(rules, error);
  }
}

async function updateProfiles(
  checked: CheckedChannel,
  source: UpdateSource,
  options: UpdateAllOptions,
): Promise<UpdateResult[]> {
  const { profiles, failures } = await installOffered(checked, source, { ...options, ids: [] });
  return profiles.map(({ id: name, revision: version, installed: from, state }): UpdateResult => {
    const profile = { what: "profile", name, version } as const;
    const error = failures.get(name);
    if (error) return failed(profile, error);
    if (state === "same") return { ...profile, state: "newest" };
    if (state === "yours") return { ...profile, state: "kept", reason: "you changed it" };
    return { ...profile, ...(from && { from }), state: "installed" };
  });
}

function failed(result: Omit<UpdateResult, "state">, error: unknown): UpdateResult {
  const { code, message: reason, hint } = asSbxError(error, "an update");
  return { ...result, state: "failed", code, reason, ...(hint && { hint }) };
}
