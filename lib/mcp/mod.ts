/**
 * External MCP servers, from outside the aggregator: what sbx-process, the service and the CLI need. The MCP client itself
 * is in aggregator/, and only sbx-mcp-aggregator loads it.
 */
export { Aggregator, type AggregatorOptions } from "./driver/aggregator.ts";
export { AGGREGATOR, aggregatorProgram } from "./driver/program.ts";
export type { CallOptions } from "./driver/pending.ts";
export type { AggregatorDefinition } from "./definition.ts";
export type {
  Entries,
  Kind,
  Progress,
  PromptEntry,
  ResourceEntry,
  ServerStatus,
  ToolEntry,
} from "./entry.ts";
export {
  namespacedName,
  namespacedUri,
  type Routed,
  serverNameProblem,
  splitName,
  splitUri,
} from "./name.ts";
export type { CredentialResolver } from "./outbound/mod.ts";
export { findingOf, type PinChange, type PinFinding } from "./pin/change.ts";
export { definitionDiff, type DiffPart, renderDiff, wordDiff } from "./pin/diff.ts";
export { pinHash } from "./pin/hash.ts";
export { type PinCheck, PinStore } from "./pin/store.ts";
export { unconnected } from "./driver/statuses.ts";
export { type CorpMcp, definitionsOf } from "./sources.ts";
