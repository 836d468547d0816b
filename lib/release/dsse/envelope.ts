/** DSSE envelopes (https://github.com/secure-systems-lab/dsse, version 1): a payload, its type, and signatures over both. */
import { z } from "zod";
import { ENVELOPE_BYTES_MAX, SIGNATURES_MAX } from "../limit.ts";
import { parseDocument } from "../read.ts";
import { SIGNATURE_BYTES } from "../key/ed25519.ts";

const base64 = z.base64().transform((text) => Uint8Array.fromBase64(text));

/** An envelope as it is read: payload and signatures as bytes. */
export const Envelope = z.strictObject({
  payload: base64,
  payloadType: z.string().min(1).max(128).regex(/^[\x21-\x7e]+$/),
  signatures: z.array(z.strictObject({
    keyid: z.string().max(128).regex(/^[\x21-\x7e]*$/, "must be printable, without spaces"),
    sig: base64.refine((sig) => sig.length === SIGNATURE_BYTES, `must be ${SIGNATURE_BYTES} bytes`),
  })).min(1).max(SIGNATURES_MAX),
});
export type Envelope = z.output<typeof Envelope>;

/** An envelope as it is written. */
export type EnvelopeJson = z.input<typeof Envelope>;

/** Parses an envelope. @throws {SbxError} `release.invalid` */
export function parseEnvelope(bytes: Uint8Array, source: string): Envelope {
  return parseDocument({ name: "envelope", schema: Envelope, max: ENVELOPE_BYTES_MAX }, bytes, source);
}

/** The bytes that are signed ("PAE"): lengths keep payload and type from being shifted into each other. */
export function signedBytes(payloadType: string, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const type = new TextEncoder().encode(payloadType);
  const head = new TextEncoder().encode(`DSSEv1 ${type.length} ${payloadType} ${payload.length} `);
  const bytes = new Uint8Array(head.length + payload.length);
  bytes.set(head);
  bytes.set(payload, head.length);
  return bytes;
}
