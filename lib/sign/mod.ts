/**
 * Signatures of git: commits and tags are read strictly and signed on the host; the key never enters a VM.
 */
export { findGpgKey, type GpgKey } from "./gpg.ts";
export { readSigningFile, readSigningKey } from "./key.ts";
export { EMAILS_MAX, PAYLOAD_MAX, PENDING_MAX, PER_MINUTE, PUBLIC_MAX } from "./limit.ts";
export { type GitObject, type Ident, readObject } from "./object.ts";
export { type SigningTerms, signPayload } from "./signer.ts";
