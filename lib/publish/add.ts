/** Adds releases to a workspace, with their profiles, programs and bundles. */
import { dirname } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import {
  type BinaryEntry,
  type BundleEntry,
  type ChannelManifest,
  digestBytes,
  type ManifestRecord,
  type PackageEntry,
  type ProfileEntry,
  type Status,
} from "../release/mod.ts";
import { ChannelId, ReleaseVersion } from "../release/schema.ts";
import { isDraft } from "./sign.ts";
import { FILE_MODE, FOLDER_MODE, releaseFolder, UNSIGNED, type Workspace } from "./workspace.ts";
import { writeAtomic } from "../base/home/mod.ts";

/** Release that is added to, and made if it is not there. */
export interface Target {
  channel: string;
  version: string;
  /** of a new channel, for people; default its id */
  label?: string;
  /** of a new release */
  status?: Status;
  min_sbx_version?: string;
  max_sbx_version?: string;
}

/** Entries to add; one of the same name or id is replaced. */
export interface Entries {
  packages?: PackageEntry[];
  binaries?: BinaryEntry[];
  profiles?: ProfileEntry[];
  bundles?: BundleEntry[];
}

/**
 * Makes the folder of a release's files. It is public later.
 *
 * @throws {SbxError} `release.conflict`: the release is signed, and never
 * changes again; `release.name.invalid`
 */
export async function openRelease(workspace: Workspace, { channel, version }: Target): Promise<string> {
  requireNames(channel, version);
  const record = findRecord(workspace, channel, version);
  if (record && !isDraft((await workspace.readManifest(record)).manifest)) {
    throw new SbxError(
      "release.conflict",
      `release ${version} of channel "${channel}" is signed and never changes`,
      {
        hint: "add a release with a new version",
      },
    );
  }
  const folder = releaseFolder(channel, version);
  await Deno.mkdir(workspace.path(folder), { recursive: true, mode: FOLDER_MODE });
  return folder;
}

/** Adds entries to a release that was opened, and writes manifest and index. */
export async function addEntries(
  workspace: Workspace,
  target: Target,
  entries: Entries,
): Promise<ManifestRecord> {
  const { channel, version, label = channel, status = "current", ...bounds } = target;
  const existing = findRecord(workspace, channel, version);
  const record: ManifestRecord = existing ?? {
    version,
    status,
    url: `${releaseFolder(channel, version)}/manifest.json`,
    digest: { sha256: UNSIGNED, blake3: UNSIGNED, hmac: UNSIGNED },
  };
  Object.assign(record, bounds);
  const before: ChannelManifest = existing
    ? (await workspace.readManifest(existing)).manifest
    : { version, channel, packages: [], binaries: [], profiles: [] };
  const { packages = [], binaries = [], profiles = [], bundles = before.bundles } = entries;
  await Deno.mkdir(dirname(workspace.path(record.url)), { recursive: true, mode: FOLDER_MODE });
  await workspace.writeManifest(record, {
    ...before,
    packages: merge(before.packages, packages, ({ name }) => name),
    binaries: merge(before.binaries, binaries, (each) => `${each.package} ${each.name}`),
    profiles: merge(before.profiles, profiles, ({ id }) => id),
    ...(bundles && { bundles }),
  });
  if (!existing) (workspace.index.channels[channel] ??= { label, manifests: [] }).manifests.push(record);
  await workspace.writeIndex();
  return record;
}

/** Both become names of folders. */
function requireNames(channel: string, version: string): void {
  const bad = [
    { what: "channel", text: channel, result: ChannelId.safeParse(channel) },
    { what: "version", text: version, result: ReleaseVersion.safeParse(version) },
  ].find(({ result }) => !result.success);
  if (!bad) return;
  throw new SbxError(
    "release.name.invalid",
    `invalid ${bad.what} ${JSON.stringify(bad.text.slice(0, 100))}`,
    {
      hint: bad.result.error!.issues[0].message,
    },
  );
}

function findRecord(
  { index: { channels } }: Workspace,
  channel: string,
  version: string,
): ManifestRecord | undefined {
  return Object.hasOwn(channels, channel)
    ? channels[channel].manifests.find((each) => each.version === version)
    : undefined;
}

function merge<T>(before: readonly T[], added: readonly T[], key: (entry: T) => string): T[] {
  const replaced = new Set(added.map(key));
  return [...before.filter((entry) => !replaced.has(key(entry))), ...added];
}

const NAME = "bundle.json";

/** Puts a bundle into the folder of a release. @param content from `packBundle` */
export async function describeBundle(
  workspace: Workspace,
  folder: string,
  content: Uint8Array,
): Promise<BundleEntry> {
  const url = `${folder}/${NAME}`;
  await writeAtomic(workspace.path(url), content, FILE_MODE);
  const { sha256, blake3, bytes } = digestBytes(content);
  return { name: NAME, url, sha256, blake3, hmac: UNSIGNED, bytes };
}
