import { join } from "node:path";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { verifyEnvelope } from "../dsse/envelope.ts";
import { INDEX_ENVELOPE_NAME, INDEX_NAME, INDEX_PAYLOAD_TYPE, nameOfRelease } from "../graph/index.ts";
import { verifyManifest } from "../graph/manifest.ts";
import { requireHmac } from "../key/hmac.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { INDEX_BYTES_MAX } from "../limit.ts";
import { parseIndex } from "../read.ts";
import type { ChannelIndex, ManifestRecord } from "../schema.ts";
import { artifactsOf, verifyArtifact } from "./artifact.ts";
import {
  type Artifact,
  type TreeCheck,
  treePath,
  type TreeRelease,
  type TreeResult,
  type VerifiedTree,
} from "./tree.ts";

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
 * Verifies a published tree offline with a trust root: signature, records, manifests, every file of theirs, then
 * `checks`. Collects all problems instead of stopping at the first one.
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
