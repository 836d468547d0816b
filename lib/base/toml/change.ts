/**
 * Edits of TOML that keep comments and the form of the rest, and that end in the
 * wanted document or in nothing.
 */
import { SbxError } from "../error/mod.ts";
import { isTable, parseToml, type TomlDocument } from "./document.ts";
import {
  appendTableText,
  conflictError,
  encodeKey,
  encodeValue,
  removeTableText,
  setKeyText,
  type TomlValue,
} from "./edit.ts";

type Table = Record<string, unknown>;

/**
 * Sets `key` of the table at `table` to `value`; every other byte stays as it is, as far as its
 * form allows. The table may be a header, inline, or made of dotted keys; a missing table is
 * added with a header at the end.
 *
 * @param document source document, not modified
 * @throws {SbxError} `toml.edit.conflict`: for an entry in a form that cannot be edited
 */
export function setKey(document: TomlDocument, table: string[], key: string, value: TomlValue): TomlDocument {
  const path = [...table, key];
  const wanted = withValue(document.value, path, value);
  return firstThatFits(document, path, wanted, [
    () => setKeyText(document, table, key, value),
    () => addDotted(document, path, value),
    () => rewriteInline(document, path, wanted!),
  ]);
}

/**
 * Appends the table at `table`, which must not exist yet; within an inline table
 * it becomes one of its members.
 *
 * @throws {SbxError} `toml.edit.conflict`: for an entry in a form that cannot be edited
 */
export async function appendTable(
  document: TomlDocument,
  table: string[],
  value: Record<string, TomlValue>,
): Promise<TomlDocument> {
  const wanted = withValue(document.value, table, value);
  const appended = await appendTableText(document, table, value).catch((error) => error);
  return firstThatFits(document, table, wanted, [
    () => {
      if (appended instanceof Error) throw appended;
      return appended;
    },
    () => addDotted(document, table, value),
    () => rewriteInline(document, table, wanted!),
  ]);
}

/**
 * Removes the table at `table`. Comments above its header and after its last key stay:
 * they may belong to something else.
 *
 * @throws {SbxError} `toml.edit.conflict`: for an entry in a form that cannot be edited
 */
export function removeTable(document: TomlDocument, table: string[]): TomlDocument {
  const wanted = withoutValue(document.value, table);
  return firstThatFits(document, table, wanted, [
    () => removeTableText(document, table),
    () => rewriteInline(document, table, wanted),
  ], (value) => withoutValue(value, table));
}

/** The result of the first way that ends in the wanted document. */
function firstThatFits(
  document: TomlDocument,
  path: string[],
  wanted: Table | undefined,
  ways: (() => TomlDocument | undefined)[],
  plain: (value: Table) => Table = (value) => value,
): TomlDocument {
  for (const way of wanted ? ways : []) {
    try {
      const edited = way();
      if (edited && isSame(plain(edited.value), plain(wanted!))) return edited;
    } catch (error) {
      // Another way may work; the file itself is right, so its line must not be blamed.
      if (!(error instanceof SbxError)) throw error;
    }
  }
  throw conflictError(document, path);
}

/** Adds a dotted key beside one of the same table: a table of dotted keys cannot get a header. */
function addDotted(document: TomlDocument, path: string[], value: TomlValue): TomlDocument | undefined {
  const { text, keys } = document;
  for (let length = path.length - 1; length > 0; length--) {
    const table = path.slice(0, length);
    const sibling = keys.findLast((key) =>
      key.kind === "pair" && key.path.length > length && table.every((segment, at) =>
        key.path[at] === segment
      ) &&
      !keys.some(({ kind, valueStart, valueEnd }) =>
        kind !== "header" && valueStart < key.start && key.valueEnd < valueEnd
      )
    );
    if (!sibling) continue;
    const header = keys.findLast(({ kind, start }) => kind === "header" && start < sibling.start);
    const base = header?.path.length ?? 0;
    if (base >= path.length) return undefined;
    const lineStart = text.lastIndexOf("\n", sibling.start - 1) + 1 || (text.startsWith("\ufeff") ? 1 : 0);
    const newline = text.includes("\r\n") ? "\r\n" : "\n";
    const pair = `${path.slice(base).map(encodeKey).join(".")} = ${encodeValue(value, newline === "\n")}`;
    return parseToml(text.slice(0, lineStart) + pair + newline + text.slice(lineStart), document.path);
  }
}

/** Rewrites the outermost inline table around `path`. One with comments is left alone. */
function rewriteInline(document: TomlDocument, path: string[], wanted: Table): TomlDocument | undefined {
  for (let length = 1; length < path.length; length++) {
    const outer = path.slice(0, length);
    const pair = document.find(outer);
    if (pair?.kind !== "pair" || document.text[pair.valueStart] !== "{") continue;
    const before = document.text.slice(pair.valueStart, pair.valueEnd);
    if (before.includes("\n") && before.includes("#")) return undefined;
    const value = outer.reduce<unknown>((table, key) => (table as Table | undefined)?.[key], wanted);
    const encoded = encodeValue((value ?? {}) as TomlValue, !document.text.includes("\r\n"));
    const { text } = document;
    return parseToml(text.slice(0, pair.valueStart) + encoded + text.slice(pair.valueEnd), document.path);
  }
}

// The document that an edit is for: an edit that leads to any other one is refused.

/**
 * Copy of a document's value with `value` at `path`; undefined if a part of the
 * path is there and is no table.
 */
function withValue(root: Table, path: readonly string[], value: TomlValue): Table | undefined {
  const [key, ...rest] = path;
  const copy = { ...root };
  if (rest.length === 0) return define(copy, key, value);
  const inner = Object.hasOwn(root, key) ? root[key] : {};
  const changed = isTable(inner) ? withValue(inner, rest, value) : undefined;
  return changed && define(copy, key, changed);
}

/** Copy of a document's value without `path`, and without the tables around it that are empty then. */
function withoutValue(root: Table, path: readonly string[]): Table {
  const [key, ...rest] = path;
  if (!Object.hasOwn(root, key)) return root;
  const { [key]: inner, ...others } = root;
  if (rest.length === 0 || !isTable(inner)) return rest.length === 0 ? others : root;
  const left = withoutValue(inner, rest);
  return Object.keys(left).length === 0 ? others : define({ ...root }, key, left);
}

/** Compares two values of documents; the order of keys does not matter. */
function isSame(a: unknown, b: unknown): boolean {
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
