/** Entries of the aggregator's lists (docs/contracts.md §8). */
import type { ToolEntry } from "./schema.ts";

export type { ServerStatus, ToolEntry } from "./schema.ts";

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
  prompts: PromptEntry;
}
export type EntryKind = keyof Entries;

/** Progress of a call as reported by the server. */
export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}
