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
export { ensureSigningKey, findSigningKey, keyPaths, parseMachineKey, readMachineKey } from "./key.ts";
export { formatPublicKey, parsePublicKeys } from "./key.ts";
export { checkSeal, signHead, signSeal } from "./seal.ts";
