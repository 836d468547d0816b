import type { SigningKey } from "../key/ed25519.ts";
import { type EnvelopeJson, signedBytes } from "./envelope.ts";

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
