import type { Finding } from "../../event/mod.ts";
import type { ToolDefinition } from "../schema.ts";
import { foreignText } from "../name.ts";
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

// Differences between two definitions of a tool, word by word, for `sbx mcp diff`.

/** A run of words that is unchanged, added or removed. */
export interface DiffPart {
  op: "same" | "add" | "remove";
  text: string;
}

/** Cells of the table that finds the longest common subsequence; a larger middle counts as replaced. */
const CELLS_MAX = 4_000_000;

/** Differences of two texts by words; spaces and punctuation are words too. */
export function wordDiff(before: string, after: string): DiffPart[] {
  const a = splitWords(before);
  const b = splitWords(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const parts: DiffPart[] = [];
  add(parts, "same", a.slice(0, head));
  diffMiddle(parts, a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  add(parts, "same", a.slice(a.length - tail));
  return parts;
}

/** Differences of each field that a pin covers; unchanged fields are omitted. */
export function definitionDiff(
  before: ToolDefinition,
  after: ToolDefinition,
): { field: keyof ToolDefinition; parts: DiffPart[] }[] {
  const text = ({ name, description, input_schema }: ToolDefinition) => ({
    name,
    description,
    input_schema: JSON.stringify(JSON.parse(canonicalJson(input_schema)), null, 2),
  });
  const [old, current] = [text(before), text(after)];
  return (["name", "description", "input_schema"] as const)
    .filter((field) => old[field] !== current[field])
    .map((field) => ({ field, parts: wordDiff(old[field], current[field]) }));
}

/**
 * Renders parts as git's word diff: `[-removed-]` and `{+added+}`. Marks that a server wrote into its texts
 * get a backslash, or new text could pass for removed.
 */
export function renderDiff(parts: DiffPart[]): string {
  return parts.map(({ op, text }) => {
    const words = text.replace(MARK, "$&\\");
    return op === "same" ? words : op === "add" ? `{+${words}+}` : `[-${words}-]`;
  }).join("");
}

/** First halves of marks that stand before their second ones. */
const MARK = /\[(?=-)|-(?=\])|\{(?=\+)|\+(?=\})/g;

function diffMiddle(parts: DiffPart[], a: string[], b: string[]): void {
  if (a.length * b.length > CELLS_MAX) {
    add(parts, "remove", a);
    add(parts, "add", b);
    return;
  }
  const width = b.length + 1;
  // Length of the longest common subsequence from (i, j) to the ends.
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add(parts, "same", [a[i++]]);
      j++;
    } else if (
      j === b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
    ) {
      add(parts, "remove", [a[i++]]);
    } else add(parts, "add", [b[j++]]);
  }
}

function splitWords(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

function add(parts: DiffPart[], op: DiffPart["op"], words: string[]): void {
  if (words.length === 0) return;
  const last = parts.at(-1);
  if (last?.op === op) last.text += words.join("");
  else parts.push({ op, text: words.join("") });
}
