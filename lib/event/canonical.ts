/**
 * Canonical JSON: compact, keys of every object sorted by UTF-16 code units, absent (`undefined`) fields left
 * out. For what JSON can hold this is RFC 8785: V8 prints numbers and strings as it asks.
 */
export function canonicalJson(value: unknown): string {
  if (typeof value === "string") return quote(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) {
    let text = "[";
    for (let at = 0; at < value.length; at++) text += (at ? "," : "") + canonicalJson(value[at]);
    return text + "]";
  }
  const object = value as Record<string, unknown>;
  let text = "";
  for (const key of sortedKeys(object)) {
    const field = object[key];
    if (field !== undefined) text += (text ? "," : "{") + keyText(key) + canonicalJson(field);
  }
  return text ? text + "}" : "{}";
}

/** Keys as they were found and as they are sorted, by the first of them: most objects look like one before. */
const orders = new Map<string, { found: string[]; sorted: string[] }>();

function sortedKeys(object: Record<string, unknown>): string[] {
  const found = Object.keys(object);
  if (found.length < 2) return found;
  const known = orders.get(found[0]);
  if (known && sameKeys(known.found, found)) return known.sorted;
  const sorted = found.toSorted();
  if (known || orders.size < KEYS_MAX) orders.set(found[0], { found, sorted });
  return sorted;
}

function sameKeys(a: string[], b: string[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

/** Most keys whose text is remembered: those of events are few, those of headers and arguments are anyone's. */
const KEYS_MAX = 1000;
const keyTexts = new Map<string, string>();

function keyText(key: string): string {
  let text = keyTexts.get(key);
  if (text === undefined) {
    text = JSON.stringify(key) + ":";
    if (keyTexts.size < KEYS_MAX) keyTexts.set(key, text);
  }
  return text;
}

/** Text of which nothing has to be escaped is most text. */
// deno-lint-ignore no-control-regex
const ESCAPED = /["\\\x00-\x1f\ud800-\udfff]/;

function quote(text: string): string {
  return ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`;
}
