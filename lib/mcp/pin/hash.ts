import { canonicalJson } from "../../event/canonical.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { ToolDefinition } from "../entry.ts";

/** The pin of a tool: BLAKE3 of the canonical JSON of what it says of itself (contracts.md §8). */
export function pinHash({ name, description, input_schema }: ToolDefinition): string {
  return blake3(canonicalJson({ name, description, input_schema }));
}
