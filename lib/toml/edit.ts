import { SbxError } from "../base/error/mod.ts";
import { parseToml, type TomlDocument } from "./document.ts";
import { encodeKey, encodeValue, type TomlValue } from "./encode.ts";
import type { TomlKey } from "./scan.ts";

/**
 * The text with `key` of the table at `table` set to `value`; every other byte stays as it is. The table may be
 * written as a header, inline, or with dotted keys; where there is none, a header is added at the end.
 *
 * @param document what the text parses to; it is not changed
 */
export function setKey(document: TomlDocument, table: string[], key: string, value: TomlValue): TomlDocument {
  const { text } = document;
  const encoded = encodeValue(value, lineBreak(text) === "\n");
  const at = document.find([...table, key]);
  if (at?.kind === "header") throw notEditable(document, [...table, key]);
  if (at) return edited(document, at.valueStart, at.valueEnd, encoded);

  const pair = `${encodeKey(key)} = ${encoded}`;
  const home = document.find(table);
  const members = document.keys.filter(({ path, kind }) =>
    kind === "pair" && path.length === table.length + 1 && isWithin(path, table)
  );
  if (home?.kind === "pair") return addInline(document, home, members.at(-1), pair);
  if (home) {
    const after = lineEnd(text, (members.at(-1) ?? home).valueEnd);
    return edited(document, after, after, `${lineBreak(text)}${pair}`);
  }
  const dotted = members.at(-1);
  if (dotted) {
    // `a.b.value = 1` has a sister `a.b.<key>`: the same words before the last segment.
    const prefix = text.slice(dotted.start, dotted.lastSegment);
    const after = isInline(document, dotted) ? dotted.valueEnd : lineEnd(text, dotted.valueEnd);
    const glue = isInline(document, dotted) ? ", " : lineBreak(text);
    return edited(document, after, after, `${glue}${prefix}${pair}`);
  }
  return addTable(document, table, pair);
}

/**
 * The text without the table at `table`. Comments above its header and after its last key stay: they may be about
 * something else.
 */
export function removeTable(document: TomlDocument, table: string[]): TomlDocument {
  let now = document;
  // A table can be spread over dotted keys, so what is left of it is looked for again after each removal.
  for (;;) {
    const first = now.keys.find(({ path }) => isWithin(path, table));
    if (!first) return now;
    if (first.kind === "element") throw notEditable(now, table);
    now = first.kind === "header" ? removeHeader(now, first) : removePair(now, first);
  }
}

function removeHeader(document: TomlDocument, header: TomlKey): TomlDocument {
  const { text } = document;
  const next = document.keys.find(({ kind, start }) => kind === "header" && start > header.start);
  const own = document.keys.filter(({ kind, start }) =>
    kind === "pair" && start > header.start && start < (next?.start ?? Infinity)
  );
  const end = Math.max(header.valueEnd, ...own.map(({ valueEnd }) => valueEnd));
  return cutLines(document, header.start, lineEnd(text, end));
}

function removePair(document: TomlDocument, pair: TomlKey): TomlDocument {
  const { text } = document;
  if (!isInline(document, pair)) return cutLines(document, pair.start, lineEnd(text, pair.valueEnd));
  const after = /^\s*,\s*/.exec(text.slice(pair.valueEnd));
  if (after) return edited(document, pair.start, pair.valueEnd + after[0].length, "");
  const before = /\s*,\s*$/.exec(text.slice(0, pair.start));
  return edited(document, before ? before.index : pair.start, pair.valueEnd, "");
}

/** Cuts whole lines, and the empty line above them where it would set nothing apart any more. */
function cutLines(document: TomlDocument, start: number, end: number): TomlDocument {
  const { text } = document;
  let from = text.lastIndexOf("\n", start - 1) + 1;
  if (from === 0 && text.startsWith("\ufeff")) from = 1;
  const to = /^(\r?\n)?/.exec(text.slice(end))![0].length + end;
  const rest = text.slice(to);
  const gap = rest.trim() === "" || /^\r?\n/.test(rest)
    ? /(\r?\n)(\r?\n)$/.exec(text.slice(0, from))?.[2].length ?? 0
    : 0;
  return edited(document, from - gap, to, "");
}

function addInline(
  document: TomlDocument,
  home: TomlKey,
  last: TomlKey | undefined,
  pair: string,
): TomlDocument {
  if (document.text[home.valueStart] !== "{") throw notEditable(document, home.path);
  if (last) return edited(document, last.valueEnd, last.valueEnd, `, ${pair}`);
  return edited(document, home.valueStart, home.valueEnd, `{ ${pair} }`);
}

function addTable(document: TomlDocument, table: string[], pair: string): TomlDocument {
  const { text } = document;
  const inline = table.slice(0, -1).findLastIndex((_, index) =>
    document.find(table.slice(0, index + 1))?.kind === "pair"
  );
  // Within an inline table there are no headers: the new table goes in there too.
  if (inline >= 0) {
    const parent = table.slice(0, inline + 1);
    const members = document.keys.filter(({ path }) => path.length > parent.length && isWithin(path, parent));
    const last = members.findLast(({ path }) => path.length === parent.length + 1);
    const key = table.slice(inline + 1).map(encodeKey).join(".");
    return addInline(document, document.find(parent)!, last ?? members.at(-1), `${key} = { ${pair} }`);
  }
  const newline = lineBreak(text);
  const bare = text.replace(/^\ufeff/, "");
  const gap = bare === "" ? "" : bare.endsWith("\n") ? newline : newline.repeat(2);
  const header = `[${table.map(encodeKey).join(".")}]`;
  return edited(document, text.length, text.length, `${gap}${header}${newline}${pair}${newline}`);
}

/** Puts `insert` in place of a range. What comes out is parsed again, so that an edit can never break a file. */
function edited(document: TomlDocument, start: number, end: number, insert: string): TomlDocument {
  return parseToml(document.text.slice(0, start) + insert + document.text.slice(end), document.path);
}

function notEditable(document: TomlDocument, path: readonly string[]): SbxError {
  return new SbxError(
    "toml.edit.conflict",
    `${document.placeOf(path)}: this entry is written in a form that sbx cannot edit`,
    { hint: `write it as a table of its own: [${path.map(encodeKey).join(".")}]` },
  );
}

function isWithin(path: readonly string[], table: readonly string[]): boolean {
  return path.length >= table.length && table.every((segment, index) => path[index] === segment);
}

/** Whether the pair stands in an inline table, so among commas and not on a line of its own. */
function isInline(document: TomlDocument, pair: TomlKey): boolean {
  return document.keys.some(({ kind, valueStart, valueEnd }) =>
    kind !== "header" && valueStart < pair.start && pair.valueEnd < valueEnd
  );
}

/** Where the line ends on which a value ends: after its comment, before its line break. */
function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  if (end < 0) return text.length;
  return text[end - 1] === "\r" ? end - 1 : end;
}

/** The line break that the text uses. */
function lineBreak(text: string): string {
  return /\r?\n/.exec(text)?.[0] ?? "\n";
}
