/**
 * Refs: what guests and records hold in place of a secret (docs/design/contracts/09-credentials.md §9).
 */
import { blake3 } from "../base/hash/mod.ts";

/** Prefix of every ref. */
export const REF_PREFIX = "credential:blake3:";
/** A ref and nothing else. */
export const REF = /^credential:blake3:[0-9a-f]{64}$/;
/** Pattern of a ref in text: plain, or with percent-encoded colons as in forms and queries. */
export const REF_IN_TEXT = "credential(?::|%3[Aa])blake3(?::|%3[Aa])[0-9a-f]{64}";

/** The ref of a secret: always the same one for the same secret of the same provider. */
export function refOf(provider: string, secret: string): string {
  return REF_PREFIX + blake3(`sbx.credential.v1\0${provider}\0${secret}`);
}

/** A ref that {@linkcode REF_IN_TEXT} found, without percent-encoding. */
export function plainRef(text: string): string {
  return text.replace(/%3a/gi, ":");
}

/** Texts that stand for a ref: it, and the digest alone. */
export function refTexts(ref: string): string[] {
  return [ref, ref.slice(REF_PREFIX.length)];
}
