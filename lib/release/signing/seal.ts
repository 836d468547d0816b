/**
 * Signed texts of this machine, in exactly one spelling, so that every byte of a file is vouched for; seals
 * and heads of records are such texts.
 */
import type { Home } from "../../base/home/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { ChainHeads } from "../../ledger/mod.ts";
import {
  type Envelope,
  parseEnvelope,
  type PublicKey,
  type SigningKey,
  signPayload,
  verifyParsed,
} from "../mod.ts";
import { findSigningKey } from "./key.ts";
import { Buffer } from "node:buffer";

/** Types of content that a machine signs. */
export const SEAL_TYPE = "application/vnd.sbx.ledger-seal+json";
export const HEAD_TYPE = "application/vnd.sbx.ledger-head+json";
export const CERTIFICATE_TYPE = "application/vnd.in-toto+json";
export const SEGMENT_TYPE = "application/vnd.sbx.ledger-segment+json";
export const REPORT_TYPE = "application/vnd.sbx.fleet-report+json";
export const REGISTER_TYPE = "application/vnd.sbx.session-register+json";
export const FLEET_HOME_TYPE = "application/vnd.sbx.fleet-home+json";
export const FLEET_PROOF_TYPE = "application/vnd.sbx.fleet-home-proof+json";
export const FLEET_LOG_TYPE = "application/vnd.sbx.fleet-log+json";
const TYPES = [
  SEAL_TYPE,
  HEAD_TYPE,
  CERTIFICATE_TYPE,
  SEGMENT_TYPE,
  REPORT_TYPE,
  REGISTER_TYPE,
  FLEET_HOME_TYPE,
  FLEET_PROOF_TYPE,
  FLEET_LOG_TYPE,
];

/** Content that a machine signed. */
export interface Signed {
  type: string;
  /** text of the payload */
  text: string;
  /** id of the key, and whether it is an expected one */
  key: { id: string; trusted: boolean };
}

/** Signs a text. @returns the envelope, as its file has it */
export async function signText(key: SigningKey, type: string, text: string): Promise<string> {
  return spell(await signPayload(type, new TextEncoder().encode(text), [key]));
}

/**
 * Opens an envelope with one signature. An unknown key's signature is reported, not checked: it proves
 * nothing.
 *
 * @param source origin, for errors
 * @throws {SbxError} `attest.invalid`: it is no such envelope, or was changed; `release.invalid`
 */
export async function openSigned(
  bytes: Uint8Array,
  trusted: readonly PublicKey[],
  source: string,
): Promise<Signed> {
  const envelope = parseEnvelope(bytes, source);
  const [signature, ...others] = envelope.signatures;
  if (others.length > 0 || !TYPES.includes(envelope.payloadType)) {
    throw refuse(source, "it is not a text that a machine signs");
  }
  // Other spaces, key orders or unused bits of base64 would be bytes that no signature covers.
  if (!Buffer.from(spell(toJson(envelope))).equals(bytes)) {
    throw refuse(source, "it was changed after it was signed");
  }
  const key = { id: signature.keyid, trusted: trusted.some(({ id }) => id === signature.keyid) };
  if (key.trusted) {
    const { payloadType } = envelope;
    await verifyParsed(envelope, { payloadType, trusted, source }).catch(() => {
      throw refuse(source, `its signature is not that of key ${key.id}`);
    });
  }
  return { type: envelope.payloadType, text: new TextDecoder().decode(envelope.payload), key };
}

function toJson({ payload, payloadType, signatures }: Envelope) {
  return {
    payload: payload.toBase64(),
    payloadType,
    signatures: signatures.map(({ keyid, sig }) => ({ keyid, sig: sig.toBase64() })),
  };
}

function spell(envelope: unknown): string {
  return JSON.stringify(envelope) + "\n";
}

function refuse(source: string, problem: string): SbxError {
  return new SbxError("attest.invalid", `${source} proves nothing: ${problem}`, {
    hint: "take the file again from where it was kept; do not rely on this one",
  });
}

/** Signs the seal of a ledger. @returns `undefined` if this machine has no key */
export async function signSeal(home: Pick<Home, "dir">, text: string): Promise<string | undefined> {
  const key = await findSigningKey(home);
  return key && await signText(key, SEAL_TYPE, text);
}

/** Signs the heads of a ledger, to publish them while it is written. @returns as {@linkcode signSeal} */
export async function signHead(
  home: Pick<Home, "dir">,
  session_id: string,
  heads: ChainHeads,
): Promise<string | undefined> {
  const key = await findSigningKey(home);
  const head = { schema: "sbx.ledger-head.v1", session_id, taken_at: new Date().toISOString(), ...heads };
  return key && await signText(key, HEAD_TYPE, JSON.stringify(head) + "\n");
}

/**
 * Checks the signature of a seal.
 *
 * @param required the seal must be signed by a trusted key
 * @returns the signer; `undefined` if it is not signed
 * @throws {SbxError} `attest.invalid`
 */
export async function checkSeal(
  text: string,
  trusted: readonly PublicKey[],
  required: boolean,
): Promise<{ id: string; trusted: boolean } | undefined> {
  const isSigned = text.startsWith('{"payload":');
  const signed = isSigned ? await openSigned(new TextEncoder().encode(text), trusted, "the seal") : undefined;
  if (signed && signed.type !== SEAL_TYPE) throw refuseSeal("it is a signed text of another kind");
  if (required && !signed?.key.trusted) {
    throw refuseSeal(signed ? `key ${signed.key.id}, which is not given, signed it` : "it is not signed");
  }
  return signed?.key;
}

function refuseSeal(problem: string): SbxError {
  return new SbxError("attest.invalid", `the seal proves nothing: ${problem}`);
}
