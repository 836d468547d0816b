/**
 * Canonical JSON: compact, keys of every object sorted by UTF-16 code units, absent (`undefined`) fields left
 * out. For what JSON can hold this is RFC 8785: V8 prints numbers and strings as it asks.
 *
 * @param remember short texts may stay in memory, so that what is the same from one value to the next is written
 * once: for events, of which most fields are; never for what may hold a secret
 */
export function canonicalJson(value: unknown, remember = false): string {
  if (typeof value === "string") return quote(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) {
    let text = "[";
    for (let at = 0; at < value.length; at++) text += (at ? "," : "") + canonicalJson(value[at], remember);
    return text + "]";
  }
  const object = value as Record<string, unknown>;
  const found = Object.keys(object);
  if (!found.length) return "{}";
  const { sorted, keys, values, texts } = shapeOf(found);
  let text = "";
  for (let at = 0; at < sorted.length; at++) {
    const field = object[sorted[at]];
    if (field === undefined) continue;
    text += text ? "," : "{";
    if (field === values[at]) text += texts[at];
    else if (remember && typeof field === "string" && field.length <= REMEMBERED_MAX) {
      values[at] = field;
      text += texts[at] = keys[at] + quote(field);
    } else text += keys[at] + canonicalJson(field, remember);
  }
  return text ? text + "}" : "{}";
}

/** Longest text of a field that is remembered. */
const REMEMBERED_MAX = 64;

/** What objects with the same keys have in common. */
interface Shape {
  /** keys as they were found */
  found: string[];
  sorted: string[];
  /** each sorted key as text, with its colon */
  keys: string[];
  /** the last short text of each field, and what was written for it with its key */
  values: (string | undefined)[];
  texts: string[];
}

/** Most first keys that are remembered, and shapes of each: those of events are few, those of arguments are anyone's. */
const SHAPES_MAX = 1000;
const SAME_START_MAX = 4;
/** Most objects look like one before: shapes by their first key. */
const shapes = new Map<string, Shape[]>();

function shapeOf(found: string[]): Shape {
  const alike = shapes.get(found[0]);
  if (alike) { for (const shape of alike) if (sameKeys(shape.found, found)) return shape; }
  const sorted = found.toSorted();
  const keys = sorted.map(keyText);
  const shape = { found, sorted, keys, values: sorted.map(() => undefined), texts: keys.slice() };
  if (alike) {
    if (alike.length === SAME_START_MAX) alike.shift();
    alike.push(shape);
  } else if (shapes.size < SHAPES_MAX) shapes.set(found[0], [shape]);
  return shape;
}

function sameKeys(a: string[], b: string[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

function keyText(key: string): string {
  return JSON.stringify(key) + ":";
}

/** Text of which nothing has to be escaped is most text. */
// deno-lint-ignore no-control-regex
const ESCAPED = /["\\\x00-\x1f\ud800-\udfff]/;

function quote(text: string): string {
  return ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`;
}
