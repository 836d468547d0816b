/** Enrolment of machines, from which their homes derive (docs/guides/fleet.md). */
export { ensureHomeProof, HomeProof, homeProofPath, isHomeProof } from "./proof.ts";
export { HomeCertificate, makeHomeCertificate, openHomeCertificate } from "./certificate.ts";
export {
  Enrolment,
  enrolmentPaths,
  ensureMachineKey,
  type KeyPlace,
  type MachineKey,
  openMachineKey,
  readEnrolment,
  readHome,
  type TpmUse,
  writeEnrolment,
  writeHome,
} from "./enrolment.ts";
