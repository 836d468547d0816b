/**
 * Bundles: corp.toml with the rules and packs that it names, in one file (docs/design/contracts/10-release.md
 * §10, "Fleet bundles").
 */
import { join, relative } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import {
  BUNDLE_BYTES_MAX,
  BUNDLE_FILES_MAX,
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

/** The one file that every bundle has. */
export const CORP_NAME = "corp.toml";

const filePath = z.string().max(255).regex(
  /^(?!.*(?:^|\/)\.)[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/,
  "must be a path below the bundle of letters, digits, . _ -, no part of which begins with a dot",
);

const BundleDocument = z.strictObject({
  schema: z.literal("sbx.fleet-bundle.v1"),
  files: z.record(filePath, z.string()).refine(
    (files) => Object.keys(files).length <= BUNDLE_FILES_MAX && Object.hasOwn(files, CORP_NAME),
    `must have ${CORP_NAME}, and at most ${BUNDLE_FILES_MAX} files`,
  ),
});

/** Texts of the files of a bundle, by path. */
export type BundleFiles = Record<string, string>;

/** Reads a bundle whose bytes were verified. @throws {SbxError} `bundle.invalid` */
export function parseBundle(bytes: Uint8Array, source: string): BundleFiles {
  const text = bytes.length <= BUNDLE_BYTES_MAX ? decodeUtf8(bytes) : undefined;
  if (text === undefined) throw invalid(source, `it is not UTF-8 of at most ${BUNDLE_BYTES_MAX} bytes`);
  let value: unknown;
  try {
    value = parseJson(text, 4);
  } catch (cause) {
    throw invalid(source, "it is not JSON", cause);
  }
  const parsed = BundleDocument.safeParse(value);
  if (parsed.success) return parsed.data.files;
  const [issue] = parsed.error.issues;
  throw invalid(source, `${issue.path.join(".") || "document"}: ${issue.message}`.slice(0, 300));
}

/** Packs the files of a folder. @throws {SbxError} `bundle.invalid` */
export async function packBundle(folder: string): Promise<Uint8Array<ArrayBuffer>> {
  const files: BundleFiles = {};
  for (const path of await filesIn(folder)) {
    const text = decodeUtf8(await Deno.readFile(path));
    if (text === undefined) throw invalid(path, "it is not UTF-8");
    files[relative(folder, path)] = text;
  }
  const bytes = new TextEncoder().encode(JSON.stringify({ schema: "sbx.fleet-bundle.v1", files }) + "\n");
  parseBundle(bytes, folder);
  return bytes;
}

async function filesIn(folder: string): Promise<string[]> {
  const paths: string[] = [];
  try {
    for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (name.startsWith(".")) continue;
      if (isDirectory) paths.push(...await filesIn(path));
      else if (isFile) paths.push(path);
      // A link may lead to a file that was not meant to be published.
      else throw invalid(path, "it is neither a file nor a folder");
      if (paths.length > BUNDLE_FILES_MAX) {
        throw invalid(folder, `it has more than ${BUNDLE_FILES_MAX} files`);
      }
    }
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw invalid(folder, "it cannot be read", cause);
  }
  return paths.sort();
}

function invalid(source: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("bundle.invalid", `the bundle ${source} is refused: ${problem}`, {
    cause,
    hint: "a bundle is a folder with corp.toml and the rules and packs that it names",
  });
}

// Bundles of a release graph, verified from the index down (docs/design/contracts/10-release.md §10).

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

/** Fetches and verifies a bundle; nothing is remembered or installed. @throws {SbxError} `release.…`, `bundle.…` */
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
