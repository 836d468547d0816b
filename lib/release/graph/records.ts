/** Records of a channel, fetched and verified: its index, its manifests and its profiles. */
import { SbxError } from "../../base/error/mod.ts";
import { verifyEnvelope } from "../dsse/envelope.ts";
import { requireHmac } from "../key/hmac.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { ENVELOPE_BYTES_MAX, INDEX_BYTES_MAX } from "../limit.ts";
import { parseChannelManifest, parseIndex } from "../read.ts";
import type { ChannelIndex, ChannelManifest, ManifestRecord, ProfileEntry } from "../schema.ts";
import { digestBytes, requireDigests } from "../digest.ts";
import { isObject } from "../../base/object/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import type { RememberedProfile } from "../memory/schema.ts";

/** Payload type of a signed channel index. */
export const INDEX_PAYLOAD_TYPE = "application/vnd.sbx.channels.v1+json";
/** Name of the channel index, and of its envelope beside it. */
export const INDEX_NAME = "channels.json", INDEX_ENVELOPE_NAME = "channels.json.dsse";

/**
 * Fetches a small document.
 *
 * @param max most `bytes` worth reading; more are an error
 * @throws {SbxError}
 */
export type Fetch = (url: URL, max: number) => Promise<Uint8Array>;

/** A channel whose records are verified. */
export interface VerifiedRecords {
  index: ChannelIndex;
  records: ManifestRecord[];
  /** bytes that a publisher signed: the envelope, or the index where HMACs alone are trusted */
  document: Uint8Array;
  /** ids of the keys that verified it */
  verifiedBy: { hmac: string[]; signatures: string[] };
}

/**
 * Fetches and verifies the index. With trusted keys it is the payload of its envelope, and nothing else is
 * read; with HMAC keys every record of the channel must verify.
 *
 * @throws {SbxError} `release.invalid`, `release.signature.invalid`,
 * `release.hmac.invalid`, `release.channel.not_found`
 */
export async function fetchRecords(
  url: URL,
  channel: string,
  { hmac, trusted }: ReleaseKeys,
  fetch: Fetch,
): Promise<VerifiedRecords> {
  const document = trusted.length === 0
    ? await fetch(url, INDEX_BYTES_MAX)
    : await fetch(new URL(`${url.href}.dsse`), ENVELOPE_BYTES_MAX);
  const { index, signatures } = await readIndex(document, url.href, trusted);
  const records = recordsOf(index, channel);
  const ids = hmac.length === 0
    ? []
    : records.map((record) => requireHmac(hmac, record, nameOfRelease(record.version, channel)));
  return { index, records, document, verifiedBy: { hmac: [...new Set(ids)], signatures } };
}

/** `release 1.2.0 of channel "stable"` */
export function nameOfRelease(version: string, channel: string): string {
  return `release ${version} of channel "${channel}"`;
}

/**
 * Reads an index: with trusted keys from its verified envelope, else as it is.
 *
 * @param href address of the index
 * @throws {SbxError} `release.invalid`, `release.signature.invalid`
 */
export async function readIndex(
  document: Uint8Array,
  href: string,
  trusted: ReleaseKeys["trusted"],
): Promise<{ index: ChannelIndex; signatures: string[] }> {
  if (trusted.length === 0) return { index: parseIndex(document, href), signatures: [] };
  const { payload, keyIds } = await verifyEnvelope(document, {
    payloadType: INDEX_PAYLOAD_TYPE,
    trusted,
    source: `${href}.dsse`,
  });
  return { index: parseIndex(payload, href), signatures: keyIds };
}

function recordsOf({ channels }: ChannelIndex, channel: string): ManifestRecord[] {
  if (Object.hasOwn(channels, channel)) return channels[channel].manifests;
  const names = Object.keys(channels).join(", ");
  throw new SbxError("release.channel.not_found", `there is no channel "${channel}" in the channel index`, {
    hint: names ? `its channels: ${names}` : "it has no channel; ask the publisher",
  });
}

/**
 * Verifies the bytes of a manifest against its record: digests, then its own channel and version, which bind
 * the record to its place, then the HMAC of each entry.
 *
 * @throws {SbxError} `release.mismatch`, `release.invalid`, `release.hmac.invalid`
 */
export function verifyManifest(
  bytes: Uint8Array,
  record: ManifestRecord,
  channel: string,
  hmac: ReleaseKeys["hmac"],
): ChannelManifest {
  const name = nameOfRelease(record.version, channel);
  requireDigests(digestBytes(bytes), record.digest, `the manifest of ${name}`);
  const manifest = parseChannelManifest(bytes, `of ${name}`);
  if (manifest.channel !== channel || manifest.version !== record.version) {
    throw new SbxError(
      "release.mismatch",
      `the manifest of ${name} is that of ${nameOfRelease(manifest.version, manifest.channel)}`,
      { hint: "someone moved a record to another place; nothing was installed" },
    );
  }
  if (hmac.length > 0) {
    for (const each of manifest.packages) requireHmac(hmac, each, `package ${each.name} of ${name}`);
    for (const each of manifest.binaries) requireHmac(hmac, each, `binary ${each.name} of ${name}`);
    for (const each of manifest.profiles) requireHmac(hmac, each, `profile ${each.id} of ${name}`);
    for (const each of manifest.bundles ?? []) requireHmac(hmac, each, `bundle ${each.name} of ${name}`);
  }
  return manifest;
}

/**
 * Verifies a profile document and finds the boot files that it pins. Reads nothing else of it: a profile for
 * a newer sbx can be revoked too.
 *
 * @throws {SbxError} `release.mismatch`, `release.invalid`
 */
export function readProfileDocument(bytes: Uint8Array, entry: ProfileEntry): RememberedProfile {
  const what = `profile ${entry.id} ${entry.revision}`;
  requireDigests(digestBytes(bytes), entry, what);
  const value = valueOf(bytes, what);
  if (value.id !== entry.id || value.revision !== entry.revision) {
    throw new SbxError("release.mismatch", `the document of ${what} is that of another profile or revision`, {
      hint: "the publisher must correct it; nothing was installed",
    });
  }
  const hashes = pinsOf(value).flatMap((pin) => /^blake3:([0-9a-f]{64})$/.exec(pin)?.[1] ?? []);
  return { id: entry.id, revision: entry.revision, blake3: entry.blake3, assets: [...new Set(hashes)] };
}

function valueOf(bytes: Uint8Array, what: string): Record<string, unknown> {
  const text = decodeUtf8(bytes);
  try {
    if (text !== undefined) return parseToml(text, what).value as Record<string, unknown>;
  } catch (cause) {
    if (!(cause instanceof SbxError)) throw cause;
  }
  throw new SbxError("release.invalid", `the document of ${what} is not TOML`, {
    hint: "the publisher must correct it; nothing was installed",
  });
}

/** `assets.arch.<arch>.<file>.hash` */
function pinsOf({ assets }: Record<string, unknown>): string[] {
  const children = (value: unknown) => isObject(value) ? Object.values(value) : [];
  return children(isObject(assets) ? assets.arch : undefined).flatMap(children).flatMap((file) =>
    isObject(file) && typeof file.hash === "string" ? [file.hash] : []
  );
}
