/** Interface between the endpoint and the MCP servers; the aggregator's driver implements it. */
import type { CompletionRequest, EntryKind, Progress, RequestAnswerer, ServerNotice } from "../schema.ts";

/** A tool (docs/design/contracts/08-mcp.md §8), the part visible to a guest. */
export interface ToolEntry {
  /** `<server>__<tool>` */
  namespaced_name: string;
  description?: string;
  /** JSON Schema from the server */
  input_schema: unknown;
  annotations?: unknown;
  /**
   * the tool differs from its approved definition and is held back (docs/design/contracts/08-mcp.md §8,
   * "Pin")
   */
  pin_changed?: boolean;
  title?: string;
  output_schema?: unknown;
}

/** A resource (docs/design/contracts/08-mcp.md §8). */
export interface ResourceEntry {
  /** `sbx://<server>/<original_uri>` */
  namespaced_uri: string;
  name: string;
  description?: string;
  mime_type?: string;
}

/** A family of resources. */
export interface ResourceTemplateEntry {
  /** `sbx://<server>/<original template>` */
  namespaced_uri_template: string;
  name: string;
  description?: string;
  mime_type?: string;
}

/** A prompt (docs/design/contracts/08-mcp.md §8), named like tools. */
export interface PromptEntry {
  namespaced_name: string;
  description?: string;
  /** `{name, description?, required?}` each, from the server */
  arguments?: unknown[];
}

/** Options of one request. */
export interface CallOptions {
  /** aborts when the guest cancels or disconnects, and at the timeout */
  signal: AbortSignal;
  /** receives progress; absent when the guest did not request it */
  progress?(progress: Progress): void;
}

/**
 * All MCP servers behind one interface. Every method may throw an `SbxError`: a code that ends in
 * `not_found` or `invalid` is an error of the guest, `blocked` or `held` a refusal, `timeout` a timeout; any
 * other is a failure of the aggregator.
 */
export interface Catalogue {
  listTools(options: CallOptions): Promise<ToolEntry[]>;
  listResources(options: CallOptions): Promise<ResourceEntry[]>;
  listResourceTemplates?(options: CallOptions): Promise<ResourceTemplateEntry[]>;
  listPrompts(options: CallOptions): Promise<PromptEntry[]>;
  /** @returns MCP's `CallToolResult` from the server */
  callTool(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown>;
  /** @returns MCP's `ReadResourceResult` */
  readResource(uri: string, options: CallOptions): Promise<unknown>;
  /** @returns MCP's `GetPromptResult` */
  getPrompt(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown>;
  /** @returns MCP's `CompleteResult` */
  complete?(request: CompletionRequest, options: CallOptions): Promise<unknown>;
  subscribe?(uri: string, options: CallOptions): Promise<void>;
  unsubscribe?(uri: string, options: CallOptions): Promise<void>;
  /** Calls `noticed` with what servers say without being asked. @returns a function that ends the watch */
  watchNotices?(noticed: (notice: ServerNotice) => void): () => void;
  /** Has requests of servers answered. @returns a function that ends it */
  answerRequests?(answerer: RequestAnswerer): () => void;
  /** Calls `changed` when a list changes. @returns a function that ends the watch */
  watch?(changed: (list: EntryKind) => void): () => void;
}

/** The part of a catalogue that a built-in server implements. */
export type ToolServer = Pick<Catalogue, "listTools" | "callTool">;
