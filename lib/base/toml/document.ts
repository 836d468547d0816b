/** TOML text with the position of each key, so that errors name a line and edits keep comments. */
import { parse, TomlError } from "smol-toml";
import { SbxError } from "../error/mod.ts";
import { isObject } from "../object/mod.ts";

/** Position in a file, counted from 1. */
export interface Position {
  line: number;
  column: number;
}

/** TOML text with its values and the position of each key. */
export class TomlDocument {
  #keys?: TomlKey[];
  #byPath?: Map<string, TomlKey>;

  constructor(
    /** file name for messages */
    readonly path: string,
    readonly text: string,
    /** the root table */
    readonly value: Record<string, unknown>,
  ) {}

  /** Every key in text order. Scanned on first use: only errors, explanations and edits need it. */
  get keys(): readonly TomlKey[] {
    return this.#keys ??= scanKeys(this.text);
  }

  /** The key, table header or array element at exactly `path`. */
  find(path: readonly PropertyKey[]): TomlKey | undefined {
    this.#byPath ??= indexByPath(this.keys);
    return this.#byPath.get(joinPath(path));
  }

  /** Position of `path`, or else of the nearest table around it. */
  positionOf(path: readonly PropertyKey[]): Position {
    for (let length = path.length; length > 0; length--) {
      const key = this.find(path.slice(0, length)) ?? this.#firstWithin(path.slice(0, length));
      if (key) return { line: key.line, column: key.column };
    }
    return { line: 1, column: 1 };
  }

  /** The first key below a table that has no header of its own, such as `a` in `[a.b]`. */
  #firstWithin(path: readonly PropertyKey[]): TomlKey | undefined {
    return this.keys.find((key) => path.every((segment, index) => key.path[index] === String(segment)));
  }

  /** Position of `path` as `file:line`. */
  placeOf(path: readonly PropertyKey[]): string {
    return `${this.path}:${this.positionOf(path).line}`;
  }
}

/** Line of `path` in a valid TOML text; undefined for an absent path. */
export function lineOf(text: string, path: readonly PropertyKey[]): number | undefined {
  return indexByPath(scanKeys(text)).get(joinPath(path))?.line;
}

/**
 * Parses TOML text.
 *
 * @param path file name for messages
 * @throws {SbxError} `toml.invalid`; the message begins with `path:line:column`
 */
export function parseToml(text: string, path: string): TomlDocument {
  const nul = text.indexOf("\0");
  if (nul >= 0) throw invalidError(text, path, nul, "NUL character");
  let value: Record<string, unknown>;
  try {
    value = parse(text);
  } catch (cause) {
    const { line, column } = cause instanceof TomlError ? cause : { line: 1, column: 1 };
    throw new SbxError("toml.invalid", `${path}:${line}:${column}: ${reasonOf(cause)}`, {
      cause,
      hint: "correct that line",
    });
  }
  // The parser accepts any day up to 31 and rolls it over into the next month (docs/design/toml.md).
  if (ROLLING_DAY.test(text)) rejectRollingDays(text, path);
  return new TomlDocument(path, text, value);
}

/** Dates past the end of a short month. */
const ROLLING_DAY = /\d{4}-(?:02-(?:29|30|31)|(?:04|06|09|11)-31)/;

function rejectRollingDays(text: string, path: string) {
  scanKeys(text, (date, offset) => {
    const [year, month, day] = date.split("-").map(Number);
    // Day 0 of the next month is the last day of this one.
    const last = new Date(0);
    last.setUTCFullYear(year, month, 0);
    if (day > last.getUTCDate()) throw invalidError(text, path, offset, `${date} is not a calendar date`);
  });
}

function invalidError(text: string, path: string, offset: number, problem: string): SbxError {
  const before = text.slice(0, offset).split("\n");
  return new SbxError("toml.invalid", `${path}:${before.length}:${before.at(-1)!.length + 1}: ${problem}`, {
    hint: "correct that line",
  });
}

/** Parse error in one line, reworded if the parser's own text misleads. */
function reasonOf(error: unknown): string {
  if (!(error instanceof TomlError)) return "not valid TOML";
  const reason = error.message.split("\n", 1)[0].replace(/^Invalid TOML document: /, "");
  if (reason.startsWith("trying to redefine")) return "this key or table is defined twice";
  if (reason.includes("losslessly")) return "integer beyond ±(2^53 − 1)";
  if (reason.includes("excessively nested")) return "nested too deep";
  return `not valid TOML: ${reason}`;
}

/** True for a table of a parsed document; dates are objects too, but not tables. */
export function isTable(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !(value instanceof Date);
}

function indexByPath(keys: readonly TomlKey[]): Map<string, TomlKey> {
  const index = new Map<string, TomlKey>();
  for (const key of keys) {
    const path = joinPath(key.path);
    if (!index.has(path)) index.set(path, key);
  }
  return index;
}

/** Joins a path with NUL, which raw TOML text cannot contain (an escaped one is ignored). */
function joinPath(path: readonly PropertyKey[]): string {
  return path.map(String).join("\0");
}

/** One key of a TOML text with its position; offsets in UTF-16 units. */
export interface TomlKey {
  /** from the root; array elements by index, as text */
  path: string[];
  /** `[header]`, `key = value`, or an array element */
  kind: "header" | "pair" | "element";
  /** offset of the key, or of the header's bracket */
  start: number;
  /** offset of the last segment of a dotted key */
  lastSegment: number;
  /** range of the value; of the header itself for a header */
  valueStart: number;
  valueEnd: number;
  line: number;
  column: number;
}

/** Date at the current offset. */
const DATE = /(\d{4}-\d{2}-\d{2})/y;

/**
 * Finds every key of a TOML text. The parser must have accepted the text: this scanner knows only enough
 * grammar to skip strings, comments and brackets.
 *
 * @param onDate callback for each date outside strings, with its `YYYY-MM-DD` and offset
 */
export function scanKeys(text: string, onDate?: (date: string, offset: number) => void): TomlKey[] {
  return new Scanner(text, onDate).run();
}

class Scanner {
  #at = 0;
  #keys: TomlKey[] = [];
  #line = 1;
  #lineStart = 0;
  #counted = 0;
  /** elements counted in each array of tables, by joined path */
  #arrays = new Map<string, number>();

  constructor(readonly text: string, readonly onDate?: (date: string, offset: number) => void) {}

  run(): TomlKey[] {
    let table: string[] = [];
    if (this.text.startsWith("\ufeff")) this.#at = this.#lineStart = this.#counted = 1;
    for (this.#skipSpace(); this.#at < this.text.length; this.#skipSpace()) {
      if (this.text[this.#at] === "[") table = this.#scanHeader();
      else this.#scanPair(table);
    }
    return this.#keys;
  }

  #scanHeader(): string[] {
    const start = this.#at;
    const isArray = this.text.startsWith("[[", start);
    this.#at += isArray ? 2 : 1;
    const { segments, lastSegment } = this.#scanDottedKey();
    const path: string[] = [];
    for (const [index, segment] of segments.entries()) {
      path.push(segment);
      const count = this.#arrays.get(path.join("\0"));
      const isLast = index === segments.length - 1;
      if (isLast && isArray) {
        this.#arrays.set(path.join("\0"), (count ?? 0) + 1);
        path.push(String(count ?? 0));
      } else if (count !== undefined) {
        path.push(String(count - 1));
      }
    }
    this.#at = this.text.indexOf("]", this.#at) + (isArray ? 2 : 1);
    this.#add({ path, kind: "header", start, lastSegment, valueStart: start, valueEnd: this.#at });
    return path;
  }

  #scanPair(table: string[]) {
    const start = this.#at;
    const { segments, lastSegment } = this.#scanDottedKey();
    this.#at = this.text.indexOf("=", this.#at) + 1;
    this.#skipSpace();
    const path = [...table, ...segments];
    const key = this.#add({
      path,
      kind: "pair",
      start,
      lastSegment,
      valueStart: this.#at,
      valueEnd: this.#at,
    });
    this.#scanValue(path);
    key.valueEnd = this.#at;
  }

  #scanDottedKey(): { segments: string[]; lastSegment: number } {
    const segments: string[] = [];
    for (;;) {
      this.#skipSpace();
      const lastSegment = this.#at;
      segments.push(this.#scanSegment());
      this.#skipSpace();
      if (this.text[this.#at] !== ".") return { segments, lastSegment };
      this.#at++;
    }
  }

  #scanSegment(): string {
    const start = this.#at;
    const quote = this.text[start];
    if (quote === '"' || quote === "'") {
      this.#skipString();
      const inner = this.text.slice(start + 1, this.#at - 1);
      return quote === "'" ? inner : unescape(inner);
    }
    while (/[A-Za-z0-9_-]/.test(this.text[this.#at] ?? "")) this.#at++;
    return this.text.slice(start, this.#at);
  }

  #scanValue(path: string[]) {
    const first = this.text[this.#at];
    if (first === '"' || first === "'") this.#skipString();
    else if (first === "[") this.#scanArray(path);
    else if (first === "{") this.#scanInlineTable(path);
    else this.#scanBareValue();
  }

  #scanArray(path: string[]) {
    this.#at++;
    for (let index = 0;; index++) {
      this.#skipSpace(",");
      if (this.text[this.#at] === "]") break;
      const start = this.#at;
      const element = [...path, String(index)];
      const key = this.#add({
        path: element,
        kind: "element",
        start,
        lastSegment: start,
        valueStart: start,
        valueEnd: start,
      });
      this.#scanValue(element);
      key.valueEnd = this.#at;
    }
    this.#at++;
  }

  #scanInlineTable(path: string[]) {
    this.#at++;
    for (this.#skipSpace(","); this.text[this.#at] !== "}"; this.#skipSpace(",")) this.#scanPair(path);
    this.#at++;
  }

  #skipString() {
    const quote = this.text[this.#at];
    const isMultiline = this.text.startsWith(quote.repeat(3), this.#at);
    const close = isMultiline ? quote.repeat(3) : quote;
    this.#at += close.length;
    while (!this.text.startsWith(close, this.#at)) {
      this.#at += quote === '"' && this.text[this.#at] === "\\" ? 2 : 1;
    }
    this.#at += close.length;
    // Up to two more quotes belong to the content of a multi-line string.
    if (isMultiline) { while (this.text[this.#at] === quote) this.#at++; }
  }

  #scanBareValue() {
    const start = this.#at;
    while (this.#at < this.text.length && !",]}#\r\n".includes(this.text[this.#at])) this.#at++;
    DATE.lastIndex = start;
    const date = this.onDate && DATE.exec(this.text)?.[1];
    if (date) this.onDate!(date, start);
    // White space before a comment is not part of the value.
    while (this.text[this.#at - 1] === " " || this.text[this.#at - 1] === "\t") this.#at--;
  }

  /** Skips white space, line ends, comments, and the characters of `also`. */
  #skipSpace(also = "") {
    for (; this.#at < this.text.length; this.#at++) {
      const char = this.text[this.#at];
      if (char === "#") {
        const end = this.text.indexOf("\n", this.#at);
        this.#at = end < 0 ? this.text.length : end;
      } else if (!" \t\r\n".includes(char) && !also.includes(char)) {
        return;
      }
    }
  }

  #add(key: Omit<TomlKey, "line" | "column">): TomlKey {
    for (; this.#counted < key.start; this.#counted++) {
      if (this.text[this.#counted] !== "\n") continue;
      this.#line++;
      this.#lineStart = this.#counted + 1;
    }
    const located = { ...key, line: this.#line, column: key.start - this.#lineStart + 1 };
    this.#keys.push(located);
    return located;
  }
}

const ESCAPES: Record<string, string> = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", e: "\x1b" };

/** Decodes the escapes of a basic string. */
function unescape(inner: string): string {
  return inner.replace(
    /\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))/gs,
    (_, u, U, x, char) => {
      const hex = u ?? U ?? x;
      return hex ? String.fromCodePoint(parseInt(hex, 16)) : ESCAPES[char] ?? char;
    },
  );
}
