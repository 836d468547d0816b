import type { ToolDefinition } from "../entry.ts";
import { foreignText } from "../text.ts";

/** A tool that is not what was approved, and is held back until somebody approves it. */
export interface PinChange {
  server: string;
  /** its name now */
  tool: string;
  kind: "changed" | "renamed";
  /** what was approved; its name tells what the tool was called before */
  before: ToolDefinition;
  after: ToolDefinition;
  before_hash: string;
  after_hash: string;
  /** ISO 8601 */
  seen_at: string;
}

/** A finding (contracts.md §6). */
export interface PinFinding {
  finding_id: string;
  event_id: string;
  rule_id: string;
  pack_id: string;
  title: string;
  severity: "high";
  confidence: "high";
  tags: string[];
}

const RULE_ID = "mcp.tool_pin_changed";
const PACK_ID = "sbx.builtin";

/** The finding that a change raises, on the event in which the tool was listed. */
export function findingOf({ server, tool, kind, before }: PinChange, eventId: string): PinFinding {
  const name = `${server}__${foreignText(tool, 64)}`;
  const what = kind === "renamed"
    ? `was called ${foreignText(before.name, 64)} when it was approved`
    : "is not the tool that was approved";
  return {
    finding_id: `finding-${eventId}-${RULE_ID}`,
    event_id: eventId,
    rule_id: RULE_ID,
    pack_id: PACK_ID,
    title: `MCP tool ${name} ${what}; it is held back`,
    severity: "high",
    confidence: "high",
    tags: ["mcp", "supply-chain"],
  };
}
