/**
 * Zod schemas of the aggregator's lists (docs/design/contracts/08-mcp.md §8), for messages; unknown keys of
 * the aggregator are dropped.
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
