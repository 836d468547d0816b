import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { ToolDefinition } from "../entry.ts";

/**
 * Pin of a tool: BLAKE3 of the canonical JSON of its definition (docs/design/contracts/08-mcp.md §8, "Pin").
 */
export function pinHash({ name, description, input_schema }: ToolDefinition): string {
  return blake3(canonicalJson({ name, description, input_schema }));
}
