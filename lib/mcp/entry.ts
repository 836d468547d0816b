/** What the aggregator lists (contracts.md §8). */

export interface ServerStatus {
  name: string;
  url: string;
  enabled: boolean;
  /** which layer named it: `corp` or `profile` */
  source: string;
  connected: boolean;
  tool_count: number;
  resource_count: number;
  prompt_count: number;
  /** why it is not connected, or what went wrong last */
  last_error?: string;
}

/** The part of a tool that a pin covers. */
export interface ToolDefinition {
  name: string;
  description: string;
  /** JSON Schema */
  input_schema: Record<string, unknown>;
}

export interface ToolEntry {
  /** `<server>__<tool>` */
  namespaced_name: string;
  original_name: string;
  description: string;
  /** JSON Schema */
  input_schema: Record<string, unknown>;
  server_name: string;
  /** the server's own hints, which it may have made up */
  annotations: Record<string, string | boolean>;
  /** BLAKE3, 64 hex characters */
  pin_hash: string;
  /** it is not what was approved, and is held back */
  pin_changed: boolean;
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

/** Entries by the field of the answer that carries them. */
export interface Entries {
  tools: ToolEntry;
  resources: ResourceEntry;
  prompts: PromptEntry;
}
export type Kind = keyof Entries;

/** Progress of a call, as the server tells it. */
export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}
