/** The guest's MCP endpoint: every call, list and read is decided on before it leaves the VM (contracts.md §7, §8). */
export type {
  CallOptions,
  Catalogue,
  CatalogueList,
  Progress,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  ToolEntry,
  ToolServer,
} from "./catalogue.ts";
export { callForHost, type HostCall } from "./host_call.ts";
export { Endpoint, type EndpointParts } from "./endpoint.ts";
export { type EndpointLimits, LIMITS, MCP_FRAME_LIMIT } from "./limit.ts";
export { LOCAL, LocalServer } from "./local.ts";
export type { Send } from "./local_fetch.ts";
export { PROTOCOL_VERSIONS } from "./protocol.ts";
