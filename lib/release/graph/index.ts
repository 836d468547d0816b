import { SbxError } from "../../base/error/mod.ts";
import { verifyEnvelope } from "../dsse/envelope.ts";
import { requireHmac } from "../key/hmac.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { ENVELOPE_BYTES_MAX, INDEX_BYTES_MAX } from "../limit.ts";
import { parseIndex } from "../read.ts";
import type { ChannelIndex, ManifestRecord } from "../schema.ts";

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
 * Fetches and verifies the index. With trusted keys it is the payload of its envelope, and nothing else is read; with HMAC
 * keys every record of the channel must verify.
 *
 * @throws {SbxError} `release.invalid`, `release.signature.invalid`, `release.hmac.invalid`, `release.channel.not_found`
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
