/** Signatures of this machine over its records (docs/guides/certify.md). */
export {
  CERTIFICATE_TYPE,
  FLEET_HOME_TYPE,
  FLEET_LOG_TYPE,
  FLEET_PROOF_TYPE,
  HEAD_TYPE,
  openSigned,
  REGISTER_TYPE,
  REPORT_TYPE,
  SEAL_TYPE,
  SEGMENT_TYPE,
  type Signed,
  signText,
} from "./seal.ts";
export {
  bindSigningKey,
  ensureSigningKey,
  findSigningKey,
  isFileLeft,
  keyPaths,
  parseMachineKey,
  placeOfKey,
  readMachineKey,
} from "./key.ts";
export { hasTpm } from "./tpm.ts";
export { formatPublicKey, parsePublicKeys } from "./key.ts";
export { checkSeal, signHead, signSeal } from "./seal.ts";
