/** Limits of signing (docs/design/contracts/14-limits.md §14). Everything that a guest sends is untrusted. */

/** Most `bytes` of a commit or tag that is signed: a longer message is read by no person. */
export const PAYLOAD_MAX = 128 * 1024;
/** Most parents of a commit. */
export const PARENTS_MAX = 64;
/** Most characters of a name with its address, and of a subject, in an event. */
export const IDENT_MAX = 256;
export const SUBJECT_MAX = 256;
/** Requests of one VM that wait for an answer at once, and in a minute. */
export const PENDING_MAX = 4;
export const PER_MINUTE = 30;
/** Longest wait for an ssh-agent or gpg in `ms`: a person may have to touch a token. */
export const SIGNER_MS = 40_000;
/** Most `bytes` of the answer of either. */
export const ANSWER_MAX = 64 * 1024;
/** Most characters of a public key: an OpenPGP key has no more without the signatures of others. */
export const PUBLIC_MAX = 16 * 1024;
/** Most email addresses of a key. */
export const EMAILS_MAX = 8;
