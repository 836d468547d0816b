/**
 * The word diff of a held-back tool, trusted only where it is true: a server can write the
 * diff's own marks into its texts.
 */
import type { McpChange } from "../../../../lib/client/api/schema.ts";

export interface Part {
  op: "same" | "add" | "remove";
  text: string;
}

/** Marks of the service's diff: `[-removed-]` and `{+added+}`. */
const MARKED = /(\[-[^]*?-\]|\{\+[^]*?\+\})/;

/**
 * Parts of one field's diff. Marks that a server forged make other texts than those before and after; then
 * the whole field counts as replaced.
 */
export function partsOf(change: McpChange, { field, text }: McpChange["diff"][number]): Part[] {
  const [before, after] = [change.before, change.after].map((each) => textOf(each, field));
  const parts = text.split(MARKED).map(partOf);
  const isTrue = without(parts, "add") === before && without(parts, "remove") === after;
  return isTrue ? parts : [{ op: "remove", text: before }, { op: "add", text: after }];
}

function partOf(text: string): Part {
  if (!MARKED.test(text)) return { op: "same", text };
  return { op: text.startsWith("{") ? "add" : "remove", text: text.slice(2, -2) };
}

function without(parts: Part[], op: Part["op"]): string {
  return parts.filter((part) => part.op !== op).map(({ text }) => text).join("");
}

/** A field as the service compares it: schemas as JSON with sorted keys. */
function textOf(definition: McpChange["before"], field: string): string {
  if (field === "name" || field === "description") return definition[field];
  return JSON.stringify(sorted(definition.input_schema), undefined, 2);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const keys = Object.keys(value).toSorted();
  return Object.fromEntries(keys.map((key) => [key, sorted((value as Record<string, unknown>)[key])]));
}
