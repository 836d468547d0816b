/**
 * Bundles of a company's policy out to its machines, through the release graph (docs/guides/fleet.md,
 * docs/design/contracts/10-release.md §10).
 */
export {
  applyBundle,
  type BundleStatus,
  joinCorp,
  parseCorp,
  readActive,
  readBundleStatus,
  writeFiles,
} from "./apply.ts";
export { type BundleFiles, CORP_NAME, packBundle, parseBundle } from "./document.ts";
export { type BundleUpdate, updateBundle } from "./update.ts";
export { type BundlePlace, type VerifiedBundle, verifyBundle } from "./verify.ts";
