/** Containment certificates of recorded sessions (docs/guides/certify.md). */
export {
  type Certificate,
  compareWithHead,
  compareWithLedger,
  type Facts,
  type Heads,
  makeCertificate,
  type SEALS,
  type VerifiedCertificate,
  verifyCertificate,
} from "./certificate.ts";
export { certifySession } from "./sign.ts";
