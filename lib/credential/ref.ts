import { blake3 } from "../base/hash/mod.ts";

/** Prefix of every ref (docs/design/contracts/09-credentials.md §9). */
export const REF_PREFIX = "credential:blake3:";
/** A whole ref and nothing else. */
export const REF = /^credential:blake3:[0-9a-f]{64}$/;
/** A ref in text: plain, or with percent-encoded colons as in forms and queries. */
export const REF_IN_TEXT = "credential(?::|%3[Aa])blake3(?::|%3[Aa])[0-9a-f]{64}";

/**
 * Opaque reference of a secret; the same secret of the same provider always has the same ref
 * (docs/design/contracts/09-credentials.md §9).
 */
export function refOf(provider: string, secret: string): string {
  return REF_PREFIX + blake3(`sbx.credential.v1\0${provider}\0${secret}`);
}

/** Removes the percent-encoding of a ref. */
export function plainRef(text: string): string {
  return text.replace(/%3a/gi, ":");
}
