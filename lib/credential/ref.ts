import { blake3 } from "../base/hash/mod.ts";

/** What every ref begins with (contracts.md §9). */
export const REF_PREFIX = "credential:blake3:";
/** A whole ref and nothing else. */
export const REF = /^credential:blake3:[0-9a-f]{64}$/;
/** A ref in text: as it is, or with its colons percent-encoded, as forms and queries hold it. */
export const REF_IN_TEXT = "credential(?::|%3[Aa])blake3(?::|%3[Aa])[0-9a-f]{64}";
/** The opaque reference of a secret: the same secret of the same provider always has the same one (contracts.md §9). */
export function refOf(provider: string, secret: string): string {
  return REF_PREFIX + blake3(`sbx.credential.v1\0${provider}\0${secret}`);
}

/** A ref without percent-encoding. */
export function plainRef(text: string): string {
  return text.replace(/%3a/gi, ":");
}
