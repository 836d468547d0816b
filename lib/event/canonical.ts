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
  const found = Object.keys(object);
  if (!found.length) return "{}";
  const { sorted, texts } = shapeOf(found);
  let text = "";
  for (let at = 0; at < sorted.length; at++) {
    const field = object[sorted[at]];
    if (field !== undefined) text += (text ? "," : "{") + texts[at] + canonicalJson(field);
  }
  return text ? text + "}" : "{}";
}

/** What objects with the same keys in the same order have in common. */
interface Shape {
  found: string[];
  sorted: string[];
  /** each sorted key as it is written, with its colon */
  texts: string[];
}

/** What is remembered at most: shapes of events are few and small, those of headers and arguments are anyone's. */
const FIRST_KEYS_MAX = 1000;
const SHAPES_MAX = 4;
const KEYS_MAX = 32;
const KEY_CHARS_MAX = 1024;
/** Most objects look like one before: shapes by their first key, those of each in the order in which they came. */
const shapes = new Map<string, Shape[]>();

function shapeOf(found: string[]): Shape {
  const alike = shapes.get(found[0]);
  if (alike) { for (const shape of alike) if (sameKeys(shape.found, found)) return shape; }
  const sorted = found.toSorted();
  const shape = { found, sorted, texts: sorted.map((key) => JSON.stringify(key) + ":") };
  if (found.length > KEYS_MAX || found.join("").length > KEY_CHARS_MAX) return shape;
  if (alike) {
    if (alike.length === SHAPES_MAX) alike.shift();
    alike.push(shape);
  } else if (shapes.size < FIRST_KEYS_MAX) shapes.set(found[0], [shape]);
  return shape;
}

function sameKeys(a: string[], b: string[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

/** Text of which nothing has to be escaped is most text. */
// deno-lint-ignore no-control-regex
const ESCAPED = /["\\\x00-\x1f\ud800-\udfff]/;

function quote(text: string): string {
  return ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`;
}
