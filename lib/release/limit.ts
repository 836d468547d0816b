/**
 * Limits of release documents (docs/design/contracts/14-limits.md §14). A document over one is refused before
 * it is parsed.
 */

/** Largest channel index, in `bytes`. */
export const INDEX_BYTES_MAX = 4 * 1024 * 1024;
/** Largest channel manifest, and largest profile document, in `bytes`. */
export const MANIFEST_BYTES_MAX = 1024 * 1024;
/** Nesting levels of release documents; the deepest has six. */
export const DEPTH_MAX = 8;
/** Channels of an index. */
export const CHANNELS_MAX = 64;
/** Manifest records of a channel. */
export const RECORDS_MAX = 1000;
/** Packages of a manifest. */
export const PACKAGES_MAX = 256;
/** Binaries of a manifest. */
export const BINARIES_MAX = 1024;
/** Profiles of a manifest. */
export const PROFILES_MAX = 1024;
/** Bundles of a manifest: a machine has one active. */
export const BUNDLES_MAX = 1;
/** Largest bundle, in `bytes`, and most files in it. */
export const BUNDLE_BYTES_MAX = 8 * 1024 * 1024;
export const BUNDLE_FILES_MAX = 256;
/** Labels of a machine, and of a stage. */
export const LABELS_MAX = 32;
/** Characters of a URL. */
export const URL_MAX = 2048;
/** Age at which a channel index counts as frozen, in `days`: publishers re-sign at least this often. */
export const INDEX_AGE_DAYS_MAX = 30;
/** How far in the future an index may be generated, in `hours`: clocks differ by no more. */
export const CLOCK_SKEW_HOURS_MAX = 24;
/** Keys of a file of HMAC keys, and of a trust document. */
export const KEYS_MAX = 16;
/** Signatures of an envelope. */
export const SIGNATURES_MAX = 16;
/** Largest envelope, in `bytes`: an index in base64 with its signatures. */
export const ENVELOPE_BYTES_MAX = 6 * 1024 * 1024;
