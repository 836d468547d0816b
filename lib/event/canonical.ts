/**
 * Canonical JSON: compact, keys of every object sorted by UTF-16 code units, absent (`undefined`) fields left
 * out. For what JSON can hold this is RFC 8785: V8 prints numbers and strings as it asks.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  try {
    return JSON.stringify(ordered(value));
  } catch (error) {
    if (error !== NO_ORDER) throw error;
    return textOf(value);
  }
}

/** Thrown for objects whose keys JavaScript keeps in an order of its own. */
const NO_ORDER = new Error("an object cannot be put in order");

/** `value` with the keys of every object in order: itself where they are. V8 writes a whole value faster than any code of ours. */
function ordered(value: object): object {
  if (Array.isArray(value)) return orderedArray(value);
  const object = value as Record<string, unknown>;
  let before = "";
  for (const key in object) {
    if (key < before) return orderedCopy(object);
    before = key;
  }
  let copy: Record<string, unknown> | undefined;
  for (const key in object) {
    const field = object[key];
    if (field === null || typeof field !== "object") continue;
    const inOrder = ordered(field);
    if (inOrder !== field) (copy ??= { ...object })[key] = inOrder;
  }
  return copy ?? object;
}

function orderedCopy(object: Record<string, unknown>): object {
  const { sorted, unordered } = shapeOf(Object.keys(object));
  if (unordered) throw NO_ORDER;
  const copy: Record<string, unknown> = {};
  for (const key of sorted) {
    const field = object[key];
    copy[key] = field !== null && typeof field === "object" ? ordered(field) : field;
  }
  return copy;
}

function orderedArray(values: readonly unknown[]): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (value === null || typeof value !== "object") continue;
    const inOrder = ordered(value);
    if (inOrder !== value) (copy ??= [...values])[at] = inOrder;
  }
  return copy ?? values;
}

/** The slow way, which needs no order of keys in memory. */
function textOf(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${Array.from(value, textOf).join(",")}]`;
  const object = value as Record<string, unknown>;
  const fields = Object.keys(object).sort().filter((key) => object[key] !== undefined);
  return `{${fields.map((key) => `${JSON.stringify(key)}:${textOf(object[key])}`).join(",")}}`;
}

/** What objects with the same keys in the same order have in common. */
interface Shape {
  found: string[];
  sorted: string[];
  /** whether a copy of such an object may have its keys in another order, or not have them */
  unordered: boolean;
}

/** Numbers come before all other keys, and one name is no key. */
const UNORDERED = /^(\d{1,10}|__proto__)$/;

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
  const shape = { found, sorted, unordered: found.some((key) => UNORDERED.test(key)) };
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
