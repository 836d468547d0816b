/** Results that fit an agent's context. */

/** `bytes` of a result as JSON (docs/design/contracts/14-limits.md §14). */
export const RESULT_BYTES_MAX = 512 * 1024;
/** Characters of a text that is always kept: names, ids and times stay whole. */
const CHARS_MIN = 256;
/** First limit of each text in characters, and texts' characters for one item of a list. */
const CHARS_MAX = 128 * 1024;
const CHARS_PER_ITEM = 64;

/**
 * Cuts the longest texts, then lists, until the result fits. The shape stays the same, and a call whose effect has
 * happened keeps its answer.
 */
export function fitResult(
  result: Record<string, unknown>,
  max = RESULT_BYTES_MAX,
): { result: Record<string, unknown>; isCut: boolean } {
  let fitting = result;
  for (let chars = CHARS_MAX; jsonBytes(fitting) > max && chars >= CHARS_MIN; chars /= 2) {
    fitting = cut(result, chars) as Record<string, unknown>;
  }
  return { result: fitting, isCut: fitting !== result };
}

export function jsonBytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length;
}

function cut(value: unknown, chars: number): unknown {
  if (typeof value === "string") {
    const omitted = value.length - chars;
    return omitted > 0 ? `${value.slice(0, chars).toWellFormed()}… (${omitted} characters omitted)` : value;
  }
  if (typeof value !== "object" || value === null) return value;
  const items = chars / CHARS_PER_ITEM;
  if (Array.isArray(value)) return value.slice(0, items).map((item) => cut(item, chars));
  return Object.fromEntries(
    Object.entries(value).slice(0, items).map(([name, member]) => [name, cut(member, chars)]),
  );
}
