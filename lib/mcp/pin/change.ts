import type { Finding } from "../../event/mod.ts";
import type { ToolDefinition } from "../entry.ts";
import { foreignText } from "../text.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";

/** A tool that differs from its approved definition; held back until a person approves it. */
export interface PinChange {
  server: string;
  /** current name */
  tool: string;
  kind: "changed" | "renamed";
  /** approved definition, with the approved name */
  before: ToolDefinition;
  after: ToolDefinition;
  before_hash: string;
  after_hash: string;
  /** ISO 8601 */
  seen_at: string;
}

const RULE_ID = "mcp.tool_pin_changed";
const PACK_ID = "sbx.builtin";

/** The finding of a change, on the event that listed the tool. */
export function findingOf({ server, tool, kind, before }: PinChange, eventId: string): Finding {
  const name = `${server}__${foreignText(tool, 64)}`;
  const difference = kind === "renamed"
    ? `was approved as ${foreignText(before.name, 64)}`
    : "differs from its approved definition";
  return {
    finding_id: `finding-${eventId}-${RULE_ID}`,
    event_id: eventId,
    rule_id: RULE_ID,
    pack_id: PACK_ID,
    title: `MCP tool ${name} ${difference} and is held back`,
    severity: "high",
    confidence: "high",
    tags: ["mcp", "supply-chain"],
  };
}

/**
 * Pin of a tool: BLAKE3 of the canonical JSON of its definition (docs/design/contracts/08-mcp.md §8, "Pin").
 */
export function pinHash({ name, description, input_schema }: ToolDefinition): string {
  return blake3(canonicalJson({ name, description, input_schema }));
}
