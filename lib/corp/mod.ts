/** Corp configuration: an administrator's overrides of settings, servers and rules (docs/contracts.md §3). */
export { type CorpInfo, corpInfo, corpSummary } from "./info.ts";
export {
  type CorpCheck,
  type CorpConfig,
  corpPath,
  type CorpValidation,
  loadCorp,
  validateCorp,
} from "./load.ts";
export { CorpFile } from "./schema.ts";
export { type CorpState, CorpStore } from "./store.ts";
