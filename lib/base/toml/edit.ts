/** Edits TOML text in place, so that comments and layout stay. */
import { SbxError } from "../error/mod.ts";
import { parseToml, type TomlDocument, type TomlKey } from "./document.ts";
import { stringify } from "smol-toml";

/**
 * Edits the text for `setKey`. The result parses, and may be another document
 * than wanted: the caller compares.
 */
export function setKeyText(
  document: TomlDocument,
  table: string[],
  key: string,
  value: TomlValue,
): TomlDocument {
  const { text } = document;
  const encoded = encodeValue(value, lineBreak(text) === "\n");
  const at = document.find([...table, key]);
  if (at?.kind === "header") throw conflictError(document, [...table, key]);
  if (at) return splice(document, at.valueStart, at.valueEnd, encoded);

  const pair = `${encodeKey(key)} = ${encoded}`;
  const home = document.find(table);
  const members = document.keys.filter(({ path, kind }) =>
    kind === "pair" && path.length === table.length + 1 && isWithin(path, table)
  );
  if (home?.kind === "pair") return addInline(document, home, members.at(-1), pair);
  if (home) {
    const after = lineEnd(text, (members.at(-1) ?? home).valueEnd);
    return splice(document, after, after, `${lineBreak(text)}${pair}`);
  }
  const dotted = members.at(-1);
  if (dotted) {
    // `a.b.value = 1` gets a sibling `a.b.<key>`: the same prefix before the last segment.
    const prefix = text.slice(dotted.start, dotted.lastSegment);
    const after = isInline(document, dotted) ? dotted.valueEnd : lineEnd(text, dotted.valueEnd);
    const glue = isInline(document, dotted) ? ", " : lineBreak(text);
    return splice(document, after, after, `${glue}${prefix}${pair}`);
  }
  return addTable(document, table, pair);
}

/** Edits the text for `appendTable`, as {@linkcode setKeyText} does for `setKey`. */
export async function appendTableText(
  document: TomlDocument,
  table: string[],
  value: Record<string, TomlValue>,
): Promise<TomlDocument> {
  for (let length = 1; length < table.length; length++) {
    const parent = table.slice(0, length);
    if (document.find(parent)?.kind === "pair") return setNested(document, parent, table, value);
  }
  // Loaded for this only.
  const { stringify } = await import("@std/toml");
  const nested = table.reduceRight<TomlValue>((inner, key) => ({ [key]: inner }), value);
  // DEL is the one control character that `stringify` does not escape.
  const text = stringify(nested as Record<string, unknown>).trim().replaceAll("\x7f", "\\u007f");
  return append(document, `${text}\n`.replaceAll("\n", lineBreak(document.text)));
}

/** Sets the value at `table` as a member of the inline table at `parent`. */
function setNested(
  document: TomlDocument,
  parent: string[],
  table: string[],
  value: Record<string, TomlValue>,
): TomlDocument {
  const [key, ...inner] = table.slice(parent.length);
  if (inner.length > 0 && document.find([...parent, key])) {
    return setNested(document, [...parent, key], table, value);
  }
  return setKeyText(
    document,
    parent,
    key,
    inner.reduceRight<TomlValue>((nested, name) => ({ [name]: nested }), value),
  );
}

/** Edits the text for `removeTable`, as {@linkcode setKeyText} does for `setKey`. */
export function removeTableText(document: TomlDocument, table: string[]): TomlDocument {
  let edited = document;
  // A table can be spread over dotted keys, so each removal is followed by another search.
  for (;;) {
    const first = edited.keys.find(({ path }) => isWithin(path, table));
    if (!first) return edited;
    if (first.kind === "element") throw conflictError(edited, table);
    edited = first.kind === "header" ? removeHeader(edited, first) : removePair(edited, first);
  }
}

function removeHeader(document: TomlDocument, header: TomlKey): TomlDocument {
  const { text } = document;
  const next = document.keys.find(({ kind, start }) => kind === "header" && start > header.start);
  const pairs = document.keys.filter(({ kind, start }) =>
    kind === "pair" && start > header.start && start < (next?.start ?? Infinity)
  );
  const end = Math.max(header.valueEnd, ...pairs.map(({ valueEnd }) => valueEnd));
  return cutLines(document, header.start, lineEnd(text, end));
}

function removePair(document: TomlDocument, pair: TomlKey): TomlDocument {
  const { text } = document;
  if (!isInline(document, pair)) return cutLines(document, pair.start, lineEnd(text, pair.valueEnd));
  const after = /^\s*,\s*/.exec(text.slice(pair.valueEnd));
  if (after) return splice(document, pair.start, pair.valueEnd + after[0].length, "");
  const before = /\s*,\s*$/.exec(text.slice(0, pair.start));
  return splice(document, before ? before.index : pair.start, pair.valueEnd, "");
}

/** Removes whole lines, and the empty lines around them that would no longer separate anything. */
function cutLines(document: TomlDocument, start: number, end: number): TomlDocument {
  const { text } = document;
  let from = text.lastIndexOf("\n", start - 1) + 1;
  if (from === 0 && text.startsWith("\ufeff")) from = 1;
  const isFirst = text.slice(0, from).replace("\ufeff", "") === "";
  const to = (isFirst ? /^(\r?\n)*/ : /^(\r?\n)?/).exec(text.slice(end))![0].length + end;
  const rest = text.slice(to);
  const gap = rest.trim() === "" || /^\r?\n/.test(rest)
    ? /(\r?\n)(\r?\n)$/.exec(text.slice(0, from))?.[2].length ?? 0
    : 0;
  return splice(document, from - gap, to, "");
}

function addInline(
  document: TomlDocument,
  home: TomlKey,
  last: TomlKey | undefined,
  pair: string,
): TomlDocument {
  if (document.text[home.valueStart] !== "{") throw conflictError(document, home.path);
  if (last) return splice(document, last.valueEnd, last.valueEnd, `, ${pair}`);
  return splice(document, home.valueStart, home.valueEnd, `{ ${pair} }`);
}

function addTable(document: TomlDocument, table: string[], pair: string): TomlDocument {
  const { text } = document;
  const inline = table.slice(0, -1).findLastIndex((_, index) =>
    document.find(table.slice(0, index + 1))?.kind === "pair"
  );
  // An inline table cannot contain headers, so the new table is inline too.
  if (inline >= 0) {
    const parent = table.slice(0, inline + 1);
    const members = document.keys.filter(({ path }) => path.length > parent.length && isWithin(path, parent));
    const last = members.findLast(({ path }) => path.length === parent.length + 1);
    const key = table.slice(inline + 1).map(encodeKey).join(".");
    return addInline(document, document.find(parent)!, last ?? members.at(-1), `${key} = { ${pair} }`);
  }
  const newline = lineBreak(text);
  return append(document, `[${table.map(encodeKey).join(".")}]${newline}${pair}${newline}`);
}

/**
 * Appends tables after an empty line.
 * @param tables text with headers, with the line breaks of the document
 */
function append(document: TomlDocument, tables: string): TomlDocument {
  const { text } = document;
  const newline = lineBreak(text);
  const bare = text.replace(/^\ufeff/, "");
  const gap = bare === "" ? "" : bare.endsWith("\n") ? newline : newline.repeat(2);
  return splice(document, text.length, text.length, `${gap}${tables}`);
}

/** Replaces a range with `insert`. The result is parsed again, so that an edit can never break a file. */
function splice(document: TomlDocument, start: number, end: number, insert: string): TomlDocument {
  return parseToml(document.text.slice(0, start) + insert + document.text.slice(end), document.path);
}

export function conflictError(document: TomlDocument, path: readonly string[]): SbxError {
  return new SbxError(
    "toml.edit.conflict",
    `${document.placeOf(path)}: sbx cannot edit an entry in this form`,
    { hint: `write it as a separate table: [${path.map(encodeKey).join(".")}]` },
  );
}

function isWithin(path: readonly string[], table: readonly string[]): boolean {
  return path.length >= table.length && table.every((segment, index) => path[index] === segment);
}

/** True for a pair in an inline table, separated by commas instead of line breaks. */
function isInline(document: TomlDocument, pair: TomlKey): boolean {
  return document.keys.some(({ kind, valueStart, valueEnd }) =>
    kind !== "header" && valueStart < pair.start && pair.valueEnd < valueEnd
  );
}

/** Offset of the end of the line at `from`: after its comment, before its line break. */
function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  if (end < 0) return text.length;
  return text[end - 1] === "\r" ? end - 1 : end;
}

/** Line break used by the text. */
function lineBreak(text: string): string {
  return /\r?\n/.exec(text)?.[0] ?? "\n";
}

/** Value that an edit can write. */
export type TomlValue = string | number | boolean | TomlValue[] | { [key: string]: TomlValue };

/**
 * Encodes a value as TOML.
 *
 * @param multiline writes text with line breaks as a multi-line string, readable and editable by people; not
 * for files with CRLF line ends, which would become part of the text
 */
export function encodeValue(value: TomlValue, multiline = true): string {
  if (typeof value === "string") {
    return multiline && value.includes("\n") ? multilineString(value) : basicString(value);
  }
  if (typeof value === "number") return Object.is(value, -0) ? "-0.0" : String(value);
  if (typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return `[${value.map((inner) => encodeValue(inner, multiline)).join(", ")}]`;
  const pairs = Object.entries(value).map(([key, inner]) =>
    `${encodeKey(key)} = ${encodeValue(inner, multiline)}`
  );
  return pairs.length ? `{ ${pairs.join(", ")} }` : "{}";
}

/** Encodes a key, quoted where necessary. */
export function encodeKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : basicString(key);
}

/** JSON escapes are valid TOML; DEL is the one control character JSON leaves unescaped. */
function basicString(text: string): string {
  return JSON.stringify(text).replaceAll("\x7f", "\\u007f");
}

function multilineString(text: string): string {
  const lines = text.split("\n").map((line) =>
    basicString(line).slice(1, -1).replaceAll('\\"', '"').replaceAll('"""', '""\\"')
  );
  // A quote at the very end would merge with the closing quotes.
  return `"""\n${lines.join("\n").replace(/"$/, '\\"')}"""`;
}

/** Writes a whole document, with a header for each table. Comments of a document that was read are lost. */
export function stringifyToml(value: Record<string, unknown>): string {
  return stringify(value).replaceAll("\x7f", "\\u007f");
}
