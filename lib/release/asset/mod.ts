/**
 * The VM asset manifest: generates, checks and installs it, and resolves the boot files of a VM
 * (docs/design/contracts/10-release.md §10).
 */
export { checkManifest, type ManifestReport, type ReportedAsset } from "./check.ts";
export {
  DEFAULT_IMAGE,
  fileError,
  INITRD,
  installedName,
  KERNEL,
  LAYER,
  LOGICAL_NAMES,
  MANIFEST,
  MANIFEST_ORIGIN,
  manifestNames,
  OBOM,
  publishedNames,
  ROOTFS,
} from "./name.ts";
export { generateManifest, type GenerateOptions, requireAssetVersion } from "./generate.ts";
export { type AssetChange, installAssets, type InstallOptions, type InstallResult } from "./install.ts";
export { PACKAGED_ORIGIN, packagedOrigin } from "./install.ts";
export { linkOtherArches } from "./resolve.ts";
export { MANIFEST_LIMIT, parseManifest, readManifest } from "./manifest.ts";
export { type InstalledManifest, readInstalled } from "./pair.ts";
export { type Freed, pruneAssets, removeImage } from "./remove.ts";
export {
  type AssetFile,
  type Assets,
  bootFiles,
  imageFolder,
  imageManifest,
  installedImage,
  installedImages,
  resolveAssets,
  verifyAssets,
  verifyFile,
} from "./resolve.ts";
export { changeAssets } from "./pair.ts";
export { parseManifestUrl, requireTrustworthy } from "./manifest.ts";
export { compareAssetVersions } from "./manifest.ts";
export { type ImagePackages, ImageRecord, Manifest, ManifestFile, ManifestOrigin } from "./schema.ts";
