/** The document that an edit is for: an edit that leads to any other one is refused. */
import type { TomlValue } from "./encode.ts";
import { isTable } from "./document.ts";

type Table = Record<string, unknown>;

/** Copy of a document's value with `value` at `path`; undefined if a part of the path is there and is no table. */
export function withValue(root: Table, path: readonly string[], value: TomlValue): Table | undefined {
  const [key, ...rest] = path;
  const copy = { ...root };
  if (rest.length === 0) return define(copy, key, value);
  const inner = Object.hasOwn(root, key) ? root[key] : {};
  const changed = isTable(inner) ? withValue(inner, rest, value) : undefined;
  return changed && define(copy, key, changed);
}

/** Copy of a document's value without `path`, and without the tables around it that are empty then. */
export function withoutValue(root: Table, path: readonly string[]): Table {
  const [key, ...rest] = path;
  if (!Object.hasOwn(root, key)) return root;
  const { [key]: inner, ...others } = root;
  if (rest.length === 0 || !isTable(inner)) return rest.length === 0 ? others : root;
  const left = withoutValue(inner, rest);
  return Object.keys(left).length === 0 ? others : define({ ...root }, key, left);
}

/** Compares two values of documents; the order of keys does not matter. */
export function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((each, at) => isSame(each, b[at]));
  }
  if (isTable(a) && isTable(b)) {
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length &&
      keys.every((key) => Object.hasOwn(b, key) && isSame(a[key], b[key]));
  }
  return a instanceof Date && b instanceof Date ? a.toISOString() === b.toISOString() : Object.is(a, b);
}

/** Sets a key that may be called `__proto__`. */
function define(table: Table, key: string, value: unknown): Table {
  Object.defineProperty(table, key, { value, writable: true, enumerable: true, configurable: true });
  return table;
}
