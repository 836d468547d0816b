/** User settings, within the limits set by corp (docs/design/contracts/03-settings.md §3). */
export { type BootConfig, bootConfig, type BootFile } from "./resolve.ts";
export { DEFAULTS_TOML } from "./defaults/mod.ts";
export { type Definitions, type LeafDefinition, loadDefinitions, parseDefinitions } from "./definition.ts";
export type { SettingChanges, ValueCheck } from "./edit.ts";
export { type ChainLink, explain, type LayerExplanation, type SettingExplanation } from "./explain.ts";
export { settingsFile } from "./edit.ts";
export {
  checkCorpSettings,
  corpLayer,
  type CorpSettings,
  type CorpSource,
  EMPTY_LAYER,
  type Entry,
  type Layer,
  userLayer,
} from "./layer.ts";
export { withFileLock } from "./lock.ts";
export { type SettingsInfoBytes, SettingsStore, type SettingsStoreOptions } from "./store.ts";
export * from "./node/mod.ts";
export { resolve, type Resolved } from "./resolve.ts";
export { checkValue } from "./value.ts";
export { type Watch, watchFiles, watchFolder } from "./watch.ts";
