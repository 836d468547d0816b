/**
 * The release graph: channels, manifests and profiles that a publisher signs and every installer verifies
 * (docs/design/contracts/10-release.md §10, docs/guides/releases.md).
 */
export { digestBytes, digestFile, type Digests, type Expected, requireDigests } from "./digest.ts";
export {
  Envelope,
  type EnvelopeJson,
  type Expectation,
  parseEnvelope,
  signedBytes,
  signPayload,
  type Verified,
  verifyEnvelope,
  verifyParsed,
} from "./dsse/envelope.ts";
export { checkChannel, type CheckedChannel, type CheckOptions } from "./graph/check.ts";
export {
  type Fetch,
  fetchRecords,
  INDEX_ENVELOPE_NAME,
  INDEX_NAME,
  INDEX_PAYLOAD_TYPE,
  nameOfRelease,
} from "./graph/records.ts";
export { verifyManifest } from "./graph/records.ts";
export { readProfileDocument } from "./graph/records.ts";
export {
  generateSigningKey,
  keyIdOf,
  parseSigningKey,
  type PublicKey,
  type SigningKey,
  verifySignature,
} from "./key/ed25519.ts";
export { type KeyUse, readKeyFile } from "./key/keys.ts";
export {
  findHmacKey,
  type HmacKey,
  parseHmacKeys,
  recordHmac,
  requireHmac,
  type SignedRecord,
  signRecord,
  type UnsignedRecord,
} from "./key/hmac.ts";
export {
  type CorpKeys,
  findKeyFiles,
  type KeyFiles,
  MANAGED_TRUST,
  readReleaseKeys,
  type ReleaseKeys,
} from "./key/keys.ts";
export { formatTrust, parseTrust, TrustDocument } from "./key/keys.ts";
export {
  BUNDLE_BYTES_MAX,
  BUNDLE_FILES_MAX,
  ENVELOPE_BYTES_MAX,
  INDEX_AGE_DAYS_MAX,
  INDEX_BYTES_MAX,
  MANIFEST_BYTES_MAX,
} from "./limit.ts";
export {
  type ProfileIdentity,
  requireNotRevoked,
  type Standing,
  standingOfAssets,
  standingOfBinary,
  standingOfProfile,
} from "./memory/store.ts";
export type { Downgrade, Followed, MemoryFile } from "./memory/schema.ts";
export { provenRevocations } from "./memory/proof.ts";
export { ReleaseMemory } from "./memory/store.ts";
export { parseChannelManifest, parseIndex } from "./read.ts";
export type {
  BinaryEntry,
  BundleEntry,
  Channel,
  ChannelIndex,
  ChannelManifest,
  ManifestRecord,
  PackageEntry,
  ProfileEntry,
  Stage,
  Status,
} from "./schema.ts";
export { isForSbx, rankOf, selectable, selectRecord } from "./select.ts";
export { describeStage, isStagedFor, placeOf, type StagedMachine } from "./select.ts";
export type { Artifact, TreeCheck, TreeRelease, TreeResult, VerifiedTree } from "./tree/verify.ts";
export { type TreeReport, type VerifyOptions, verifyTree } from "./tree/verify.ts";
export { isReleaseUrl, parseIndexUrl, resolveReleaseUrl } from "./url.ts";
