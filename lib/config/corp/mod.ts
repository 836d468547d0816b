/**
 * Corp configuration: an administrator's overrides of settings, servers and rules
 * (docs/design/contracts/03-settings.md §3).
 */
export { type CorpInfo, corpInfo, corpSummary } from "./store.ts";
export {
  type CorpCheck,
  type CorpConfig,
  type CorpValidation,
  loadCorp,
  readCorpFile,
  validateCorp,
} from "./load.ts";
export { type CorpPlaces, corpPlaces, findCorpPlace } from "./load.ts";
export { requireCorpBase, requireCorpImage, signersOf } from "./image.ts";
export { allowsOverlays, requireOverlays } from "./overlay.ts";
export { mayOnlyNarrow, projectMissing, requiresProject, requireWidening } from "./project.ts";
export { corpFilePaths, type NamedFile } from "./paths.ts";
export { CorpFile } from "./schema.ts";
export { type CorpLayer, type CorpState, CorpStore } from "./store.ts";
