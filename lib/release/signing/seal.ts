import type { Home } from "../../base/home/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { ChainHeads } from "../../ledger/mod.ts";
import type { PublicKey } from "../mod.ts";
import { HEAD_TYPE, openSigned, SEAL_TYPE, signText } from "./envelope.ts";
import { findSigningKey } from "./key.ts";

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
  if (signed && signed.type !== SEAL_TYPE) throw refuse("it is a signed text of another kind");
  if (required && !signed?.key.trusted) {
    throw refuse(signed ? `key ${signed.key.id}, which is not given, signed it` : "it is not signed");
  }
  return signed?.key;
}

function refuse(problem: string): SbxError {
  return new SbxError("attest.invalid", `the seal proves nothing: ${problem}`);
}
