/**
 * External MCP servers for sbx-process, the service and the CLI. The MCP client itself is in `aggregator/`; only
 * sbx-mcp-aggregator loads it.
 */
export { Aggregator, type AggregatorOptions, offlineStatuses } from "./driver/aggregator.ts";
export type { CallOptions } from "./driver/pending.ts";
export type { AggregatorDefinition } from "./definition.ts";
export type {
  Entries,
  EntryKind,
  Progress,
  PromptEntry,
  RequestAnswerer,
  ResourceEntry,
  ServerNotice,
  ServerStatus,
  ToolEntry,
} from "./entry.ts";
export {
  namespacedName,
  namespacedUri,
  type QualifiedName,
  serverNameProblem,
  splitName,
  splitUri,
} from "./name.ts";
export { RENEW_BEFORE_MS } from "./limit.ts";
export { RateWatch } from "./outbound/watch.ts";
export type {
  CredentialResolver,
  LoginToken,
  ServerLogins,
  StdioProgram,
  StdioStarter,
} from "./outbound/mod.ts";
export { findingOf, type PinChange, pinHash } from "./pin/change.ts";
export { definitionDiff, type DiffPart, renderDiff, wordDiff } from "./pin/diff.ts";
export { type PinCheck, PinStore } from "./pin/store.ts";
export { definitionsOf, isLocalEnabled, type Program, programsOf } from "./sources.ts";
export { PerMinute } from "./per_minute.ts";
