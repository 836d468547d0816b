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
} from "../entry.ts";
export type {
  CallOptions,
  Catalogue,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  ToolEntry,
  ToolServer,
} from "./catalogue.ts";
export { callForHost, type HostCall } from "./host_call.ts";
export { defaultsOf } from "./server_request.ts";
export { type EndpointParts, McpEndpoint } from "./endpoint.ts";
export { type EndpointLimits, LIMITS } from "./limit.ts";
export { LOCAL } from "../sources.ts";
export { LocalServer, type LocalTool } from "./local.ts";
export type { AccessRequest, AskAccess } from "./local_access.ts";
export type { Send } from "./local_fetch.ts";
export { PROTOCOL_VERSIONS } from "./protocol.ts";
