/** Settings: preferences of the user, within what corp allows (spec.md, "Settings files" to "Boot configuration"). */
export { type BootConfig, bootConfig, type BootFile } from "./boot.ts";
export { DEFAULTS_TOML } from "./defaults.ts";
export { type Definitions, type LeafDefinition, loadDefinitions, parseDefinitions } from "./definition.ts";
export type { SettingChanges, ValueCheck } from "./edit.ts";
export { type ChainLink, explain, type LayerExplanation, type SettingExplanation } from "./explain.ts";
export { settingsFile } from "./file.ts";
export { corpLayer, EMPTY_LAYER, type Entry, type Layer, userLayer } from "./layer.ts";
export * from "./node.ts";
export { resolve, type Resolved } from "./resolve.ts";
export { type SettingsInfoBytes, SettingsStore, type SettingsStoreOptions } from "./store.ts";
export { checkValue } from "./value.ts";
export { type CorpFileValidation, validateCorpFile } from "./validate.ts";
export type { Watch } from "./watch.ts";
