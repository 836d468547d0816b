/**
 * Serializes to canonical JSON: compact, object keys sorted by UTF-16 code units, `undefined` fields omitted.
 * Equals RFC 8785 for JSON values, since V8 formats numbers and strings as it requires.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  try {
    return JSON.stringify(sortKeys(value));
  } catch (error) {
    if (error !== UNSORTABLE) throw error;
    return serialize(value);
  }
}

/** Thrown for objects whose key order JavaScript fixes itself. */
const UNSORTABLE = new Error("the keys of an object cannot be sorted");

/**
 * Returns `value` with the keys of every object sorted, or `value` itself if they are. Sorting first lets V8
 * serialize the whole value, faster than any code of ours.
 */
function sortKeys(value: object): object {
  if (Array.isArray(value)) return sortArray(value);
  const object = value as Record<string, unknown>;
  let previous = "";
  for (const key in object) {
    if (key < previous) return copySorted(object);
    previous = key;
  }
  let copy: Record<string, unknown> | undefined;
  for (const key in object) {
    const field = object[key];
    if (field === null || typeof field !== "object") continue;
    const sorted = sortKeys(field);
    if (sorted !== field) (copy ??= { ...object })[key] = sorted;
  }
  return copy ?? object;
}

function copySorted(object: Record<string, unknown>): object {
  const { sortedKeys, isSortable } = shapeOf(Object.keys(object));
  if (!isSortable) throw UNSORTABLE;
  const copy: Record<string, unknown> = {};
  for (const key of sortedKeys) {
    const field = object[key];
    copy[key] = field !== null && typeof field === "object" ? sortKeys(field) : field;
  }
  return copy;
}

function sortArray(values: readonly unknown[]): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (value === null || typeof value !== "object") continue;
    const sorted = sortKeys(value);
    if (sorted !== value) (copy ??= [...values])[at] = sorted;
  }
  return copy ?? values;
}

/** Slow fallback that does not depend on the key order of objects. */
function serialize(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${Array.from(value, serialize).join(",")}]`;
  const object = value as Record<string, unknown>;
  const fields = Object.keys(object).sort().filter((key) => object[key] !== undefined);
  return `{${fields.map((key) => `${JSON.stringify(key)}:${serialize(object[key])}`).join(",")}}`;
}

/** Key order shared by similar objects. */
interface Shape {
  keys: string[];
  sortedKeys: string[];
  /** false if a copy may reorder or lose keys */
  isSortable: boolean;
}

/** Integer keys always come first, and `__proto__` cannot be assigned. */
const UNSORTABLE_KEY = /^(\d{1,10}|__proto__)$/;

/** Bounds of the cache: shapes of events are few and small, shapes of headers and arguments are arbitrary. */
const FIRST_KEYS_MAX = 1000;
const SHAPES_MAX = 4;
const KEYS_MAX = 32;
const KEY_CHARS_MAX = 1024;
/** Cache of shapes by first key, oldest first: most objects repeat a recent shape. */
const shapes = new Map<string, Shape[]>();

function shapeOf(keys: string[]): Shape {
  const cached = shapes.get(keys[0]);
  if (cached) { for (const shape of cached) if (hasSameKeys(shape.keys, keys)) return shape; }
  const shape = {
    keys,
    sortedKeys: keys.toSorted(),
    isSortable: !keys.some((key) => UNSORTABLE_KEY.test(key)),
  };
  if (keys.length > KEYS_MAX || keys.join("").length > KEY_CHARS_MAX) return shape;
  if (cached) {
    if (cached.length === SHAPES_MAX) cached.shift();
    cached.push(shape);
  } else if (shapes.size < FIRST_KEYS_MAX) shapes.set(keys[0], [shape]);
  return shape;
}

function hasSameKeys(a: string[], b: string[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}
