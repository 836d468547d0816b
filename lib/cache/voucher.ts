/** Asks a registry for the digest of an artefact. */
import { decodeUtf8 } from "../base/text/mod.ts";
import { type Digest, digestOf, integrityDigest } from "./digest.ts";
import { type GoSum, hasGoSum, readGoSum } from "./go_sum.ts";
import type { AptIndexes } from "./apt.ts";
import type { Artifact, FilledSource, Source } from "./registry.ts";

/**
 * Fetches a document of a registry for the host: over verified TLS, on a connection that no guest uses, with
 * nothing in the request that a guest chose but the path. `undefined` for anything but a whole document.
 *
 * @param maxBytes absent: the limit of usual documents
 */
export type FetchDocument = (url: string, maxBytes?: number) => Promise<Uint8Array | undefined>;

/** The checksum of a registry for an artefact. */
export type Voucher = Digest | GoSum;

/**
 * The digest of a file for which a voucher is; `undefined` if it is for another file.
 * @param digests of the file
 */
export async function vouchedFor(
  path: string,
  digests: readonly Digest[],
  voucher: Voucher,
): Promise<Digest | undefined> {
  if (typeof voucher === "string") return digests.find((digest) => digest === voucher);
  return await hasGoSum(path, digests, voucher) ? digests[0] : undefined;
}

/** The checksum that the registry has for an artefact; `undefined` where nothing vouches for it. */
export async function findVoucher(
  artifact: Artifact,
  document: FetchDocument,
  apt: Pick<AptIndexes, "digest">,
): Promise<Voucher | undefined> {
  if (artifact.digest) return artifact.digest;
  for (const source of artifact.sources) {
    const voucher = source.form === "apt"
      ? await apt.digest(artifact, source.values, document)
      : await voucherFrom(source, artifact, document);
    if (voucher) return voucher;
  }
  return undefined;
}

async function voucherFrom(
  { values, ...source }: FilledSource,
  artifact: Artifact,
  document: FetchDocument,
): Promise<Voucher | undefined> {
  const url = new URL(fill(source.url, values), artifact.url);
  if (source.host !== undefined) [url.hostname, url.port] = [source.host, ""];
  if (url.protocol !== "https:") return undefined;
  const bytes = await document(url.href);
  const text = bytes && decodeUtf8(bytes);
  return text === undefined ? undefined : voucherIn(text, source, values, artifact.path);
}

function voucherIn(
  text: string,
  source: Source,
  values: Record<string, string>,
  path: string,
): Voucher | undefined {
  if (source.form === "go.sum") {
    const [module, version] = ["module", "version"].map((name) =>
      decoded(fill(source.equals![name], values))
    );
    return module && version ? readGoSum(text, module, version) : undefined;
  }
  if (source.form === "text") return digestFrom(text.trim().split(/\s+/)[0], source);
  const documents = source.form === "json" ? [text] : text.split("\n").filter((line) => line.trim() !== "");
  for (const document of documents) {
    const value = parse(document);
    const isIt = Object.entries(source.equals ?? {}).every(([field, expected]) =>
      fieldOf(value, [field]) === decoded(fill(expected, values))
    );
    if (!isIt || source.path && pathOf(fieldOf(value, source.path)) !== path) continue;
    return digestFrom(fieldOf(value, source.digest ?? []), source);
  }
  return undefined;
}

function digestFrom(value: unknown, { digest_form }: Source): Digest | undefined {
  if (typeof value !== "string") return undefined;
  return digest_form === "sri" ? integrityDigest(value) : digestOf(digest_form, value.toLowerCase());
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A field of the document's own, never of a prototype. */
function fieldOf(value: unknown, names: readonly string[]): unknown {
  for (const name of names) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function pathOf(url: unknown): string | undefined {
  return typeof url === "string" ? URL.parse(url)?.pathname : undefined;
}

function fill(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "");
}

/** A part of a path as documents write it. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
