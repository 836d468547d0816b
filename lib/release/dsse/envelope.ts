/**
 * DSSE envelopes (https://github.com/secure-systems-lab/dsse, version 1): a payload, its
 * type, and signatures over both.
 */
import { z } from "zod";
import { ENVELOPE_BYTES_MAX, SIGNATURES_MAX } from "../limit.ts";
import { parseDocument } from "../read.ts";
import { type PublicKey, SIGNATURE_BYTES, type SigningKey, verifySignature } from "../key/ed25519.ts";
import { SbxError } from "../../base/error/mod.ts";

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

/**
 * Signs a payload with one or more keys: while keys rotate, old and new clients each find a key they trust.
 */
export async function signPayload(
  payloadType: string,
  payload: Uint8Array,
  keys: readonly SigningKey[],
): Promise<EnvelopeJson> {
  const bytes = signedBytes(payloadType, payload);
  const signatures = await Promise.all(keys.map(async ({ publicKey, sign }) => ({
    keyid: publicKey.id,
    sig: (await sign(bytes)).toBase64(),
  })));
  return { payload: payload.toBase64(), payloadType, signatures };
}

/** Payload that a trusted key signed. */
export interface Verified {
  payload: Uint8Array;
  /** ids of the trusted keys whose signatures are valid */
  keyIds: string[];
}

/** Expected properties of an envelope. */
export interface Expectation {
  payloadType: string;
  trusted: readonly PublicKey[];
  /** origin of the envelope, for errors */
  source: string;
}

/**
 * Verifies an envelope offline. Signatures of unknown keys are ignored; one invalid
 * signature of a trusted key refuses all.
 *
 * @throws {SbxError} `release.invalid`, `release.signature.invalid`
 */
export async function verifyEnvelope(bytes: Uint8Array, expected: Expectation): Promise<Verified> {
  return await verifyParsed(parseEnvelope(bytes, expected.source), expected);
}

/** As {@linkcode verifyEnvelope}, for an envelope inside another document, such as a bundle. */
export async function verifyParsed(
  { payload, payloadType, signatures }: Envelope,
  expected: Expectation,
): Promise<Verified> {
  const refuse = (problem: string) =>
    new SbxError(
      "release.signature.invalid",
      `the signature of ${expected.source} is not valid: ${problem}`,
      {
        hint: "it was changed, or another key signed it; nothing was installed",
      },
    );
  if (payloadType !== expected.payloadType) {
    throw refuse(`it is of a ${payloadType}, not of a ${expected.payloadType}`);
  }
  const signed = signedBytes(payloadType, payload);
  const keyIds = new Set<string>();
  for (const { keyid, sig } of signatures) {
    const key = expected.trusted.find(({ id }) => id === keyid);
    if (!key) continue;
    if (!await verifySignature(key, sig, signed)) throw refuse(`key ${keyid} did not sign this`);
    keyIds.add(keyid);
  }
  if (keyIds.size === 0) {
    throw refuse(
      `signed by ${
        signatures.map(({ keyid }) => keyid.slice(0, 16) || "?").join(", ")
      }, none of them trusted`,
    );
  }
  return { payload, keyIds: [...keyIds] };
}
