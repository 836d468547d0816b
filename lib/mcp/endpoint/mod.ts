/**
 * The guest's MCP endpoint: policy applies to every call, list and read before it leaves the VM
 * (docs/design/contracts/08-mcp.md §8).
 */
export type {
  CompletionRequest,
  EntryKind,
  Progress,
  RequestAnswerer,
  ServerNotice,
  ServerRequest,
} from "../schema.ts";
export type {
  CallOptions,
  Catalogue,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  ToolEntry,
  ToolServer,
} from "./catalogue.ts";
export { callForHost, defaultsOf, type EndpointParts, type HostCall, McpEndpoint } from "./endpoint.ts";
export { type EndpointLimits, LIMITS } from "./limit.ts";
export { LOCAL } from "../definition.ts";
export {
  type AccessAnswer,
  type AccessRequest,
  type AskAccess,
  LocalServer,
  type LocalTool,
  type Send,
} from "./local.ts";
export { reportWaiting } from "./perform.ts";
export { PROTOCOL_VERSIONS } from "./rpc.ts";
