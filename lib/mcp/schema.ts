/**
 * Entries of the aggregator's lists (docs/design/contracts/08-mcp.md §8). Schemas are for messages; unknown
 * keys of the aggregator are dropped.
 */
import { z } from "zod";

/** One MCP server and its connection. */
export const ServerStatus = z.object({
  name: z.string(),
  url: z.string(),
  enabled: z.boolean(),
  source: z.string().describe("origin of the definition: corp, profile or builtin"),
  connected: z.boolean(),
  tool_count: z.int(),
  resource_count: z.int(),
  prompt_count: z.int(),
  /** reason why it is not connected, or its last failure */
  last_error: z.string().optional(),
});
export type ServerStatus = z.infer<typeof ServerStatus>;

/** One tool of an MCP server. */
export const ToolEntry = z.object({
  /** `<server>__<tool>` */
  namespaced_name: z.string(),
  original_name: z.string(),
  description: z.string(),
  /** JSON Schema */
  input_schema: z.record(z.string(), z.unknown()),
  server_name: z.string(),
  /** hints from the server; not trusted */
  annotations: z.record(z.string(), z.unknown()),
  /** BLAKE3, 64 hex characters */
  pin_hash: z.string(),
  pin_changed: z.boolean().describe("differs from its approved definition and is held back"),
});
export type ToolEntry = z.infer<typeof ToolEntry>;

/** Part of a tool covered by its pin. */
export interface ToolDefinition {
  name: string;
  description: string;
  /** JSON Schema */
  input_schema: Record<string, unknown>;
}

export interface ResourceEntry {
  /** `sbx://<server>/<uri>` */
  namespaced_uri: string;
  original_uri: string;
  name: string;
  description: string;
  mime_type?: string;
  server_name: string;
}

export interface ResourceTemplateEntry {
  /** `sbx://<server>/<template>` */
  namespaced_uri_template: string;
  original_uri_template: string;
  name: string;
  description: string;
  mime_type?: string;
  server_name: string;
}

export interface PromptArgument {
  name: string;
  description?: string;
  required?: boolean;
}

export interface PromptEntry {
  namespaced_name: string;
  original_name: string;
  description: string;
  arguments: PromptArgument[];
  server_name: string;
}

/** Entry type by the response field that contains the list. */
export interface Entries {
  tools: ToolEntry;
  resources: ResourceEntry;
  templates: ResourceTemplateEntry;
  prompts: PromptEntry;
}
export type ListKind = keyof Entries;
/** Lists whose changes are announced; templates change with the resources. */
export type EntryKind = Exclude<ListKind, "templates">;

/** Unrequested message of a server: a log message, or the update of a resource. */
export interface ServerNotice {
  server: string;
  method: "notifications/message" | "notifications/resources/updated";
  /** of a resource, namespaced */
  params: Record<string, unknown>;
}

/** Progress of a call as reported by the server. */
export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}

/** Request for values of an argument of a prompt or a URI template. */
export interface CompletionRequest {
  /** `name` is namespaced */
  ref: { type: "ref/prompt" | "ref/resource"; name: string };
  argument: { name: string; value: string };
  context?: Record<string, unknown>;
}

/** A request of a server to its client. */
export interface ServerRequest {
  server: string;
  method: "elicitation/create" | "sampling/createMessage";
  params: Record<string, unknown>;
}

/** Answers a request of a server with MCP's result. @throws Error whose message the server gets */
export type RequestAnswerer = (
  request: ServerRequest,
  signal: AbortSignal,
) => Promise<Record<string, unknown>>;
