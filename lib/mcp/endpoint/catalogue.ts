/** What the endpoint needs of whoever is connected to the MCP servers: the aggregator's driver implements it. */

/** A tool (contracts.md §8), as far as a guest is shown it. */
export interface ToolEntry {
  /** `<server>__<tool>` */
  namespaced_name: string;
  description?: string;
  /** JSON Schema, as the server gave it */
  input_schema: unknown;
  annotations?: unknown;
  /** it is not the tool that was approved, and is held back until it is (contracts.md §8, "Pin") */
  pin_changed?: boolean;
  title?: string;
  output_schema?: unknown;
}

/** A resource (contracts.md §8). */
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

/** A prompt (contracts.md §8); named as tools are. */
export interface PromptEntry {
  namespaced_name: string;
  description?: string;
  /** `{name, description?, required?}` each, as the server gave them */
  arguments?: unknown[];
}

/** How far a call is, as MCP says it. */
export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}

/** What goes along with a request. */
export interface CallOptions {
  /** aborts when the guest cancels, goes away, or the time is over */
  signal: AbortSignal;
  /** absent when the guest does not want to hear of it */
  progress?(progress: Progress): void;
}

/** Lists that change while the guest looks on. */
export type CatalogueList = "tools" | "resources" | "prompts";

/**
 * MCP servers behind one face. Every method may throw an `SbxError`: a code that ends in `not_found` or `invalid` is
 * the guest's mistake, one in `blocked` or `held` a refusal, one in `timeout` a timeout, and any other is a failure of the
 * aggregator.
 */
export interface Catalogue {
  listTools(options: CallOptions): Promise<ToolEntry[]>;
  listResources(options: CallOptions): Promise<ResourceEntry[]>;
  listResourceTemplates?(options: CallOptions): Promise<ResourceTemplateEntry[]>;
  listPrompts(options: CallOptions): Promise<PromptEntry[]>;
  /** @returns MCP's `CallToolResult`, as the server gave it */
  callTool(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown>;
  /** @returns MCP's `ReadResourceResult` */
  readResource(uri: string, options: CallOptions): Promise<unknown>;
  /** @returns MCP's `GetPromptResult` */
  getPrompt(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown>;
  /** Calls back whenever a list is no longer what it was. @returns ends that */
  watch?(changed: (list: CatalogueList) => void): () => void;
}

/** The part of a catalogue that a built-in server has. */
export type ToolServer = Pick<Catalogue, "listTools" | "callTool">;
