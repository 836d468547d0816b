/** Profiles of a release: their documents, and the files that they pin. */
import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { dirname, join } from "node:path";
import { changeAssets, installedName } from "../../release/asset/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import type { ProgressSink } from "../../base/progress/mod.ts";
import { compareSemVer } from "../../base/semver/mod.ts";
import { displayUrl, download, requireRoom } from "../../base/download/mod.ts";
import {
  type Asset,
  parseProfile,
  type Profile,
  profilePath,
  requireCompatible,
} from "../../config/profile/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import {
  type CheckedChannel,
  MANIFEST_BYTES_MAX,
  type ProfileEntry,
  readProfileDocument,
  ReleaseMemory,
  resolveReleaseUrl,
} from "../../release/mod.ts";
import { recordChange } from "./history.ts";
import { fetchDocument, type UpdateSource } from "./source.ts";

/** State of one profile of a channel in this home. */
export interface OfferedProfile {
  id: string;
  revision: string;
  /** absent: not installed from a channel */
  installed?: string;
  /** `new` and `newer` are installed by `sbx update`; `yours`: changed by hand, so it is kept */
  state: "new" | "newer" | "same" | "older" | "yours";
}

/** Compares the profiles of a channel with the installed ones. */
export async function compareProfiles(
  home: Home,
  { manifest }: Pick<CheckedChannel, "manifest">,
): Promise<OfferedProfile[]> {
  const { followed } = await new ReleaseMemory(home).read();
  const known = followed.flatMap(({ manifests }) => Object.values(manifests)).flatMap(({ profiles }) =>
    profiles
  );
  return await Promise.all(
    manifest.profiles.map(async ({ id, revision, blake3: hash }): Promise<OfferedProfile> => {
      const bytes = await Deno.readFile(profilePath(home, id)).catch(() => null);
      if (!bytes) return { id, revision, state: "new" };
      const actual = blake3(bytes);
      const installed = known.find((each) => each.id === id && each.blake3 === actual)?.revision;
      if (installed === undefined) return { id, revision, state: "yours" };
      if (actual === hash) return { id, revision, installed, state: "same" };
      return { id, revision, installed, state: compareSemVer(revision, installed) < 0 ? "older" : "newer" };
    }),
  );
}

/** How profiles are installed. */
export interface ProfileInstallOptions {
  home: Home;
  source: UpdateSource;
  allowDowngrade?: boolean;
  /** the stage `profiles` counts bytes */
  progress: ProgressSink;
  onWait?: () => void;
}

/**
 * Installs one profile of a channel: its files first, then its document.
 *
 * @throws {SbxError} `assets.downgrade`, `assets.arch.not_found`, `profile.incompatible`,
 * `profile.invalid`, `release.…`, `assets.…`
 */
export async function installProfile(
  entry: ProfileEntry,
  offered: OfferedProfile,
  { home, source, allowDowngrade, progress, onWait }: ProfileInstallOptions,
): Promise<void> {
  const { id, revision } = entry;
  if (offered.state === "older" && !allowDowngrade) {
    throw new SbxError(
      "assets.downgrade",
      `profile "${id}" ${revision} of the channel is older than the installed ${offered.installed}`,
      {
        hint: "if you mean it, add --allow-downgrade; sbx update status keeps a record of it",
      },
    );
  }
  const url = resolveReleaseUrl(source.index, entry.url);
  const bytes = await fetchDocument(url, MANIFEST_BYTES_MAX);
  readProfileDocument(bytes, entry);
  const path = profilePath(home, id);
  const profile = parseProfile(parseToml(new TextDecoder().decode(bytes), displayUrl(url)), {
    id,
    source: "user",
    path,
  });
  requireCompatible(profile);
  requireBootable(profile, currentArch());
  await changeAssets(home, `installing profile "${id}"`, async () => {
    await fetchPins(home, profile, progress, source.index);
    await recordChange(home, {
      what: "profile",
      profile: id,
      ...(offered.installed && { from: offered.installed }),
      to: revision,
      source: displayUrl(source.index),
      ...(offered.state === "older" && { downgrade: true }),
    });
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, bytes);
  }, onWait);
}

/** Refuses a profile whose VMs could not boot here: it would replace one whose VMs can. */
function requireBootable({ id, revision, assets }: Profile, arch: Arch): void {
  if (!assets || assets.arch[arch]) return;
  throw new SbxError("assets.arch.not_found", `profile "${id}" ${revision} has no image for ${arch}`, {
    hint: `its release has one for ${
      Object.keys(assets.arch).join(", ") || "no architecture"
    }; nothing was changed`,
  });
}

/**
 * Fetches the files that a profile pins for this architecture and that are not installed, and its OBOM.
 *
 * @param index where paths of a release begin
 * @returns their installed names
 * @throws {SbxError} `assets.mismatch`, `assets.not_found`, `assets.download_failed`, `disk.full`
 */
export async function fetchPins(
  home: Home,
  profile: Profile,
  progress: ProgressSink,
  index?: URL,
): Promise<string[]> {
  const arch = currentArch();
  const pins: Asset[] = [
    ...Object.values(profile.assets?.arch[arch] ?? {}),
    ...(profile.obom?.arch[arch] ? [profile.obom.arch[arch]] : []),
  ];
  const missing = [];
  for (const pin of pins) {
    const name = installedName(pin.name, pin.hash.slice("blake3:".length));
    const info = await Deno.stat(join(home.assetsDir, name)).catch(() => null);
    // Its content is verified before each boot.
    if (!info?.isFile || info.size !== pin.size) missing.push({ pin, name });
  }
  if (missing.length === 0) return [];
  const total = missing.reduce((sum, { pin }) => sum + pin.size, 0);
  await requireRoom(home.assetsDir, total);
  progress.stage("profiles", total);
  for (const { pin, name } of missing) {
    await download({
      what: `${pin.name} of profile "${profile.id}"`,
      sources: [addressOf(pin, profile, index)],
      path: join(home.assetsDir, name),
      content: { size: pin.size, blake3: pin.hash.slice("blake3:".length) },
      progress,
    });
  }
  return missing.map(({ name }) => name);
}

function addressOf({ url, name }: Asset, { id }: Profile, index: URL | undefined): URL {
  if (URL.canParse(url)) return new URL(url);
  if (index) return resolveReleaseUrl(index, url);
  throw new SbxError("assets.not_found", `${name} of profile "${id}" is a file of its release, "${url}"`, {
    hint: `install it from the channel: sbx update profiles ${id}`,
  });
}
