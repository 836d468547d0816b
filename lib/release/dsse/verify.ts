import { SbxError } from "../../base/error/mod.ts";
import { type PublicKey, verifySignature } from "../key/ed25519.ts";
import { type Envelope, parseEnvelope, signedBytes } from "./envelope.ts";

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
 * Verifies an envelope offline. Signatures of unknown keys are ignored; one invalid signature of a trusted key refuses all.
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
