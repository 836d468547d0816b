/** A published tree on disk, as `sbx-admin release publish` writes it, verified offline. */
import { basename, join } from "node:path";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { verifyEnvelope } from "../dsse/envelope.ts";
import {
  INDEX_ENVELOPE_NAME,
  INDEX_NAME,
  INDEX_PAYLOAD_TYPE,
  nameOfRelease,
  readProfileDocument,
  verifyManifest,
} from "../graph/records.ts";
import { requireHmac } from "../key/hmac.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { INDEX_BYTES_MAX } from "../limit.ts";
import { parseIndex } from "../read.ts";
import type { ChannelIndex, ChannelManifest, ManifestRecord } from "../schema.ts";
import { blake3File } from "../../base/hash/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import { digestFile, requireDigests } from "../digest.ts";
import { isReleaseUrl } from "../url.ts";

/**
 * Report of `sbx-admin release verify` and `check` (docs/design/contracts/10-release.md §10, "Publishing").
 */
export interface TreeReport {
  schema: "sbx.admin.release_report.v1";
  /** everything in the tree is verified */
  ok: boolean;
  dir: string;
  /** of the index; absent when that cannot be read */
  generated_at?: string;
  releases: { channel: string; version: string; status: string }[];
  results: TreeResult[];
}

/** Options of {@linkcode verifyTree}. */
export interface VerifyOptions {
  keys: ReleaseKeys;
  /** checks beyond the graph, of a tree whose graph is verified */
  checks?: readonly TreeCheck[];
  /** the stage `hash` counts bytes */
  progress?: ProgressSink;
}

/** Report of a tree, and its verified part. */
export interface Verification {
  report: TreeReport;
  /** absent when the index cannot be read */
  tree?: VerifiedTree;
}

/**
 * Verifies a published tree offline with a trust root: signature, records, manifests, every file of theirs,
 * then `checks`. Collects all problems instead of stopping at the first one.
 */
export async function verifyTree(dir: string, options: VerifyOptions): Promise<Verification> {
  const { keys, checks = [], progress = silent } = options;
  const results: TreeResult[] = [];
  const report: TreeReport = { schema: "sbx.admin.release_report.v1", ok: false, dir, releases: [], results };
  const index = await attempt(results, "index", INDEX_NAME, () => readIndex(dir, keys, results));
  if (!index) return { report };
  report.generated_at = index.generated_at;
  const releases: TreeRelease[] = [];
  for (const [channel, { manifests }] of Object.entries(index.channels)) {
    for (const record of manifests) {
      report.releases.push({ channel, version: record.version, status: record.status });
      const release = await verifyRelease(dir, channel, record, keys, results);
      if (release) releases.push(release);
    }
  }
  const files = releases.flatMap((release) => release.artifacts.map((artifact) => ({ artifact, release })));
  progress.stage("hash", await sizeOf(files.map(({ artifact }) => artifact)));
  for (const { artifact, release: { manifest } } of files) {
    const { kind, url, path } = artifact;
    if (path === undefined) {
      results.push({ check: kind, subject: url, ok: true, detail: "elsewhere: not verified here" });
    } else {
      await attempt(results, kind, url, async () => [
        true,
        await verifyArtifact({ ...artifact, path }, manifest, (bytes) => progress.advance(bytes)),
      ]);
    }
  }
  const tree = { dir, keys, index, releases };
  for (const check of checks) for await (const result of check(tree)) results.push(result);
  report.ok = results.every(({ ok }) => ok);
  return { report, tree };
}

async function readIndex(
  dir: string,
  { trusted }: ReleaseKeys,
  results: TreeResult[],
): Promise<[ChannelIndex, string]> {
  const path = join(dir, INDEX_NAME);
  const bytes = await readFile(path);
  if (bytes.length > INDEX_BYTES_MAX) {
    throw new SbxError("release.invalid", `${path} is over ${INDEX_BYTES_MAX} bytes`);
  }
  const index = parseIndex(bytes, path);
  if (trusted.length > 0) {
    await attempt(results, "signature", INDEX_ENVELOPE_NAME, async () => {
      const envelope = await readFile(join(dir, INDEX_ENVELOPE_NAME));
      const source = INDEX_ENVELOPE_NAME;
      const { payload, keyIds } = await verifyEnvelope(envelope, {
        payloadType: INDEX_PAYLOAD_TYPE,
        trusted,
        source,
      });
      if (payload.toHex() !== bytes.toHex()) {
        throw new SbxError("release.signature.invalid", `${source} is of another ${INDEX_NAME}`, {
          hint: "sign and publish again",
        });
      }
      return [true, `signed by ${keyIds.join(", ")}`];
    });
  }
  return [index, `generated at ${index.generated_at}`];
}

async function verifyRelease(
  dir: string,
  channel: string,
  record: ManifestRecord,
  { hmac }: ReleaseKeys,
  results: TreeResult[],
): Promise<TreeRelease | undefined> {
  const name = nameOfRelease(record.version, channel);
  if (hmac.length > 0) {
    await attempt(
      results,
      "record",
      name,
      () => [true, `verified by key ${requireHmac(hmac, record, name)}`],
    );
  }
  const path = treePath(dir, record.url);
  if (path === undefined) {
    results.push({
      check: "manifest",
      subject: record.url,
      ok: true,
      detail: "elsewhere: not verified here",
    });
    return undefined;
  }
  return await attempt(results, "manifest", record.url, async () => {
    const manifest = verifyManifest(await readFile(path), record, channel, hmac);
    return [
      { channel, record, manifest, artifacts: await artifactsOf(dir, manifest) },
      `${name}, ${record.status}`,
    ];
  });
}

/** Runs one check and adds its result. @param run returns its value and the means of verification */
async function attempt<T>(
  results: TreeResult[],
  check: string,
  subject: string,
  run: () => Promise<[T, string]> | [T, string],
): Promise<T | undefined> {
  try {
    const [value, detail] = await run();
    results.push({ check, subject, ok: true, detail });
    return value;
  } catch (error) {
    results.push({ check, subject, ok: false, detail: asSbxError(error, `verifying ${subject}`).message });
    return undefined;
  }
}

async function readFile(path: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (cause) {
    throw new SbxError("release.not_found", `${path} cannot be read`, {
      cause,
      hint: "give a published tree",
    });
  }
}

async function sizeOf(artifacts: readonly Artifact[]): Promise<number> {
  const sizes = artifacts.map(({ path }) => path ? Deno.stat(path).then(({ size }) => size, () => 0) : 0);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Lists the files of a release: packages, SBOMs, bundles, profiles, and the images that profiles pin. */
async function artifactsOf(
  dir: string,
  { packages, profiles, bundles = [] }: ChannelManifest,
): Promise<Artifact[]> {
  const at = (url: string) => ({ name: basename(url), url, path: treePath(dir, url) });
  const sboms = new Set(packages.map(({ sbom }) => sbom));
  const artifacts: Artifact[] = [
    ...packages.map(({ name, url, sha256, blake3, bytes }): Artifact => ({
      ...at(url),
      kind: "package",
      name,
      sha256,
      blake3,
      bytes,
    })),
    ...[...sboms].map((url): Artifact => ({ ...at(url), kind: "sbom" })),
    ...bundles.map(({ name, url, sha256, blake3, bytes }): Artifact => ({
      ...at(url),
      kind: "bundle",
      name,
      sha256,
      blake3,
      bytes,
    })),
  ];
  for (const entry of profiles) {
    const { url, sha256, blake3 } = entry;
    const artifact: Artifact = { ...at(url), kind: "profile", sha256, blake3 };
    artifacts.push(artifact);
    const bytes = artifact.path && await Deno.readFile(artifact.path).catch(() => undefined);
    if (bytes) artifacts.push(...imagesOf(dir, bytes));
  }
  return artifacts;
}

/**
 * Pins of a profile document: `assets.arch.<arch>.<file>` and `obom.arch.<arch>`.
 * One that cannot be read has none.
 */
function imagesOf(dir: string, bytes: Uint8Array): Artifact[] {
  let value: Record<string, unknown>;
  try {
    value = parseToml(decodeUtf8(bytes) ?? "", "profile").value;
  } catch {
    return [];
  }
  const archesOf = (table: unknown) =>
    isObject(table) && isObject(table.arch) ? Object.entries(table.arch) : [];
  const pins = [
    ...archesOf(value.assets).flatMap(([arch, files]) =>
      isObject(files) ? Object.values(files).map((pin) => ({ arch, pin })) : []
    ),
    ...archesOf(value.obom).map(([arch, pin]) => ({ arch, pin })),
  ];
  return pins.flatMap(({ arch, pin }): Artifact[] => {
    if (!isObject(pin)) return [];
    const { name, url, hash, size } = pin;
    if (typeof url !== "string" || typeof hash !== "string") return [];
    return [{
      kind: "image",
      arch,
      name: String(name),
      url,
      path: treePath(dir, url),
      blake3: hash.replace(/^blake3:/, ""),
      bytes: Number(size),
    }];
  });
}

/**
 * Verifies one file of a release by its record or pin.
 *
 * @param onBytes for a progress bar
 * @returns the means of verification
 * @throws {SbxError} `release.mismatch`, `release.not_found`
 */
async function verifyArtifact(
  artifact: Artifact & { path: string },
  { profiles }: ChannelManifest,
  onBytes?: (bytes: number) => void,
): Promise<string> {
  const { kind, path, url, sha256, blake3, bytes } = artifact;
  if (!await Deno.stat(path).then(({ isFile }) => isFile, () => false)) {
    throw new SbxError("release.not_found", `${url} is not there`, { hint: "publish the whole release" });
  }
  if (kind === "sbom") return "present";
  if (kind === "profile") {
    readProfileDocument(await Deno.readFile(path), profiles.find((entry) => entry.url === url)!);
    return "SHA-256, BLAKE3, id and revision";
  }
  if (sha256 !== undefined && blake3 !== undefined) {
    requireDigests(await digestFile(path, onBytes), { sha256, blake3, bytes }, url);
    return "size, SHA-256 and BLAKE3";
  }
  const actual = await blake3File(path, onBytes);
  if (actual.hash !== blake3 || actual.size !== bytes) {
    throw new SbxError(
      "release.mismatch",
      `${url} is not what its profile pins: ${actual.hash}, ${actual.size} bytes`,
      {
        hint: "publish the image of the profile",
      },
    );
  }
  return "size and BLAKE3";
}

/** One thing that was verified, or could not be. */
export interface TreeResult {
  /** kind of check, such as `signature`, `manifest`, `package` */
  check: string;
  /** file or record, relative to the tree */
  subject: string;
  ok: boolean;
  /** the reason, or the means of verification */
  detail?: string;
}

/** A release of the tree whose manifest is verified. */
export interface TreeRelease {
  channel: string;
  record: ManifestRecord;
  manifest: ChannelManifest;
  /** every file that the release consists of and that is in this tree */
  artifacts: Artifact[];
}

/** A file of a release. */
export interface Artifact {
  kind: "package" | "sbom" | "profile" | "bundle" | "image";
  /** name without a folder, such as `sbx_1.2.0_amd64.deb` or `rootfs.erofs` */
  name: string;
  /** address in its record */
  url: string;
  /** path on this machine; undefined for one on another server */
  path?: string;
  /** of images */
  arch?: string;
  /** of packages, profiles and bundles: its record; of images: the pin of its profile */
  sha256?: string;
  blake3?: string;
  bytes?: number;
}

/** What further checks get: everything in it is verified against the trust root. */
export interface VerifiedTree {
  dir: string;
  keys: ReleaseKeys;
  index: ChannelIndex;
  releases: TreeRelease[];
}

/**
 * A separate check over a verified tree, such as of attestations. Yields one result for each subject; throws
 * only errors that no result can express.
 */
export type TreeCheck = (tree: VerifiedTree) => AsyncIterable<TreeResult>;

/** Path of a relative address in a tree; undefined for another server's, and for files of a host. */
function treePath(dir: string, url: string): string | undefined {
  return isReleaseUrl(url) && !url.includes(":") ? join(dir, url) : undefined;
}
