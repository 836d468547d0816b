import { canonicalJson } from "../../base/json/mod.ts";
import type { ToolDefinition } from "../entry.ts";

/** Similarity at which a new tool counts as a renamed one that disappeared. */
const NEAR_EQUAL = 0.8;

/** Tests whether two tools differ in little but their names. Compares the words of descriptions and schemas (Dice). */
export function isRenamed(before: ToolDefinition, after: ToolDefinition): boolean {
  const schemas = similarity(
    words(canonicalJson(before.input_schema)),
    words(canonicalJson(after.input_schema)),
  );
  if (schemas < NEAR_EQUAL) return false;
  // Many tools take the same arguments, or none; then the descriptions decide.
  const texts = similarity(words(before.description), words(after.description));
  return texts >= NEAR_EQUAL || (schemas === 1 && hasProperties(after) && texts >= NEAR_EQUAL / 2);
}

function hasProperties({ input_schema }: ToolDefinition): boolean {
  const { properties } = input_schema;
  return typeof properties === "object" && properties !== null && Object.keys(properties).length >= 2;
}

function words(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [word] of text.toLowerCase().matchAll(/[\p{L}\p{N}_]+/gu)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/** Dice coefficient, 0 to 1: twice the common words over all words. */
function similarity(a: Map<string, number>, b: Map<string, number>): number {
  let common = 0;
  for (const [word, count] of a) common += Math.min(count, b.get(word) ?? 0);
  const all = sum(a) + sum(b);
  return all === 0 ? 1 : 2 * common / all;
}

function sum(counts: Map<string, number>): number {
  let all = 0;
  for (const count of counts.values()) all += count;
  return all;
}
