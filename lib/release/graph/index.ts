import { SbxError } from "../../base/error/mod.ts";
import { verifyEnvelope } from "../dsse/verify.ts";
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
  const { bytes, signatures } = await fetchIndex(url, trusted, fetch);
  const index = parseIndex(bytes, url.href);
  const records = recordsOf(index, channel);
  const ids = hmac.length === 0
    ? []
    : records.map((record) => requireHmac(hmac, record, nameOfRelease(record.version, channel)));
  return { index, records, verifiedBy: { hmac: [...new Set(ids)], signatures } };
}

/** `release 1.2.0 of channel "stable"` */
export function nameOfRelease(version: string, channel: string): string {
  return `release ${version} of channel "${channel}"`;
}

async function fetchIndex(url: URL, trusted: ReleaseKeys["trusted"], fetch: Fetch) {
  if (trusted.length === 0) return { bytes: await fetch(url, INDEX_BYTES_MAX), signatures: [] };
  const envelope = new URL(`${url.href}.dsse`);
  const { payload, keyIds } = await verifyEnvelope(await fetch(envelope, ENVELOPE_BYTES_MAX), {
    payloadType: INDEX_PAYLOAD_TYPE,
    trusted,
    source: envelope.href,
  });
  return { bytes: payload, signatures: keyIds };
}

function recordsOf({ channels }: ChannelIndex, channel: string): ManifestRecord[] {
  if (Object.hasOwn(channels, channel)) return channels[channel].manifests;
  const names = Object.keys(channels).join(", ");
  throw new SbxError("release.channel.not_found", `there is no channel "${channel}" in the channel index`, {
    hint: names ? `its channels: ${names}` : "it has no channel; ask the publisher",
  });
}
