/** Corp: what an administrator's corp.toml forces, hides, adds and takes away (contracts.md §3). */
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
