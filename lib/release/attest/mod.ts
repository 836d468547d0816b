/**
 * Attestations of released files: in-toto statements in Sigstore bundles, verified offline
 * (docs/design/contracts/10-release.md §10).
 */
export { type Attested, type AttestOptions, attestRelease, subjectOf } from "./release.ts";
export { attestationCheck, kindsFor } from "./release.ts";
export { attestationsBeside } from "./file.ts";
export { readBundle, writeBundle } from "./file.ts";
export {
  type Build,
  documentStatement,
  type Kind,
  provenance,
  Statement,
  type Subject,
} from "./statement.ts";
