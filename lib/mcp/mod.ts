/**
 * External MCP servers for sbx-process, the service and the CLI. The MCP client itself is in `aggregator/`;
 * only sbx-mcp-aggregator loads it.
 */
export { Aggregator, type AggregatorOptions, offlineStatuses } from "./driver/aggregator.ts";
export type { CallOptions } from "./driver/process.ts";
export {
  type AggregatorDefinition,
  definitionsOf,
  isLocalEnabled,
  type Program,
  programsOf,
} from "./definition.ts";
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
} from "./schema.ts";
export {
  namespacedName,
  namespacedUri,
  type QualifiedName,
  serverNameProblem,
  splitName,
  splitUri,
} from "./name.ts";
export { PerMinute, RENEW_BEFORE_MS } from "./limit.ts";
export { RateWatch } from "./outbound/body_watch.ts";
export type {
  CredentialResolver,
  LoginToken,
  ServerLogins,
  StdioProgram,
  StdioStarter,
} from "./outbound/mod.ts";
export {
  definitionDiff,
  type DiffPart,
  findingOf,
  type PinChange,
  pinHash,
  renderDiff,
  wordDiff,
} from "./pin/change.ts";
export { type PinCheck, PinStore } from "./pin/store.ts";
