/**
 * Attestations of released files: in-toto statements in Sigstore bundles, verified offline
 * (docs/design/contracts/10-release.md §10).
 */
export { type Attested, type AttestOptions, attestRelease, subjectOf } from "./release.ts";
export { attestationCheck, filesOfReleases } from "./release.ts";
export { readBundle, writeBundle } from "./file.ts";
export {
  type Build,
  documentStatement,
  type Kind,
  provenance,
  Statement,
  type Subject,
} from "./statement.ts";
