/** Containment certificates of recorded sessions (docs/guides/certify.md). */
export { type Certificate, type Facts, type Heads, makeCertificate, type SEALS } from "./certificate.ts";
export { compareWithHead, compareWithLedger, type VerifiedCertificate, verifyCertificate } from "./verify.ts";
