/** Bundles of a release graph, verified from the index down (docs/design/contracts/10-release.md §10). */
import { SbxError } from "../../base/error/mod.ts";
import {
  BUNDLE_BYTES_MAX,
  type BundleEntry,
  type ChannelManifest,
  digestBytes,
  type Fetch,
  fetchRecords,
  MANIFEST_BYTES_MAX,
  type ManifestRecord,
  nameOfRelease,
  type ReleaseKeys,
  requireDigests,
  resolveReleaseUrl,
  selectRecord,
  verifyManifest,
} from "../../release/mod.ts";
import { type BundleFiles, parseBundle } from "./document.ts";

/** A bundle whose release was verified. */
export interface VerifiedBundle {
  record: ManifestRecord;
  manifest: ChannelManifest;
  entry: BundleEntry;
  files: BundleFiles;
}

/** Location of a bundle, and the keys that verify it. */
export interface BundlePlace {
  index: URL;
  channel: string;
  keys: ReleaseKeys;
  fetch: Fetch;
  /** absent: the one that machines of the last stage get */
  version?: string;
}

/**
 * Fetches and verifies a bundle; nothing is remembered or installed.
 * @throws {SbxError} `release.…`, `bundle.…`
 */
export async function verifyBundle(
  { index, channel, keys, fetch, version }: BundlePlace,
): Promise<VerifiedBundle> {
  const { records } = await fetchRecords(index, channel, keys, fetch);
  const record = version === undefined
    ? selectRecord(channel, records)
    : records.find((each) => each.version === version);
  if (!record) {
    throw new SbxError("release.not_found", `there is no ${nameOfRelease(version!, channel)}`, {
      hint: `its releases: ${records.map((each) => each.version).join(", ") || "none"}`,
    });
  }
  const bytes = await fetch(resolveReleaseUrl(index, record.url), MANIFEST_BYTES_MAX);
  const manifest = verifyManifest(bytes, record, channel, keys.hmac);
  const entry = entryOf(manifest);
  const content = await fetch(resolveReleaseUrl(index, entry.url), BUNDLE_BYTES_MAX);
  return { record, manifest, entry, files: openBundle(content, entry) };
}

/** The bundle of a release. @throws {SbxError} `bundle.missing` */
export function entryOf({ bundles, version, channel }: ChannelManifest): BundleEntry {
  const [entry] = bundles ?? [];
  if (entry) return entry;
  throw new SbxError("bundle.missing", `${nameOfRelease(version, channel)} has no bundle`, {
    hint: "sbx-admin release add DIR VERSION --bundle FOLDER puts one into a release",
  });
}

/** Opens the bytes of a bundle. @throws {SbxError} `release.mismatch`, `bundle.invalid` */
export function openBundle(bytes: Uint8Array, entry: BundleEntry): BundleFiles {
  requireDigests(digestBytes(bytes), entry, `the bundle ${entry.name}`);
  return parseBundle(bytes, entry.name);
}
