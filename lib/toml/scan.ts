/** One key of a TOML text, with where it stands. Offsets are in UTF-16 units. */
export interface TomlKey {
  /** from the root; an element of an array has its index, as text */
  path: string[];
  /** how it is written: a `[header]`, a `key = value`, or a value within an array */
  kind: "header" | "pair" | "element";
  /** where the key (or the header's bracket) begins */
  start: number;
  /** where its last segment begins; a dotted key has more than one */
  lastSegment: number;
  /** the value; for a header, the header itself */
  valueStart: number;
  valueEnd: number;
  line: number;
  column: number;
}

const DATE = /(\d{4}-\d{2}-\d{2})/y;

/**
 * Finds every key of a TOML text that the parser has accepted. It knows just enough grammar to walk over strings,
 * comments and brackets, so it must not be given anything else.
 *
 * @param onDate called for each date outside strings, with its `YYYY-MM-DD` and offset
 */
export function scanKeys(text: string, onDate?: (date: string, offset: number) => void): TomlKey[] {
  return new Scan(text, onDate).run();
}

class Scan {
  #at = 0;
  #keys: TomlKey[] = [];
  #line = 1;
  #lineStart = 0;
  #counted = 0;
  /** elements so far of each array of tables, by joined path */
  #arrays = new Map<string, number>();

  constructor(readonly text: string, readonly onDate?: (date: string, offset: number) => void) {}

  run(): TomlKey[] {
    let table: string[] = [];
    if (this.text.startsWith("\ufeff")) this.#at = this.#lineStart = this.#counted = 1;
    for (this.#skipSpace(); this.#at < this.text.length; this.#skipSpace()) {
      if (this.text[this.#at] === "[") table = this.#header();
      else this.#pair(table);
    }
    return this.#keys;
  }

  #header(): string[] {
    const start = this.#at;
    const isArray = this.text.startsWith("[[", start);
    this.#at += isArray ? 2 : 1;
    const { segments, lastSegment } = this.#dottedKey();
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

  #pair(table: string[]) {
    const start = this.#at;
    const { segments, lastSegment } = this.#dottedKey();
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
    this.#value(path);
    key.valueEnd = this.#at;
  }

  #dottedKey(): { segments: string[]; lastSegment: number } {
    const segments: string[] = [];
    for (;;) {
      this.#skipSpace();
      const lastSegment = this.#at;
      segments.push(this.#segment());
      this.#skipSpace();
      if (this.text[this.#at] !== ".") return { segments, lastSegment };
      this.#at++;
    }
  }

  #segment(): string {
    const start = this.#at;
    const quote = this.text[start];
    if (quote === '"' || quote === "'") {
      this.#string();
      const inner = this.text.slice(start + 1, this.#at - 1);
      return quote === "'" ? inner : unescape(inner);
    }
    while (/[A-Za-z0-9_-]/.test(this.text[this.#at] ?? "")) this.#at++;
    return this.text.slice(start, this.#at);
  }

  #value(path: string[]) {
    const first = this.text[this.#at];
    if (first === '"' || first === "'") this.#string();
    else if (first === "[") this.#array(path);
    else if (first === "{") this.#inlineTable(path);
    else this.#bare();
  }

  #array(path: string[]) {
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
      this.#value(element);
      key.valueEnd = this.#at;
    }
    this.#at++;
  }

  #inlineTable(path: string[]) {
    this.#at++;
    for (this.#skipSpace(","); this.text[this.#at] !== "}"; this.#skipSpace(",")) this.#pair(path);
    this.#at++;
  }

  #string() {
    const quote = this.text[this.#at];
    const isMultiline = this.text.startsWith(quote.repeat(3), this.#at);
    const close = isMultiline ? quote.repeat(3) : quote;
    this.#at += close.length;
    while (!this.text.startsWith(close, this.#at)) {
      this.#at += quote === '"' && this.text[this.#at] === "\\" ? 2 : 1;
    }
    this.#at += close.length;
    // Up to two more quotes belong to the text of a multi-line string.
    if (isMultiline) { while (this.text[this.#at] === quote) this.#at++; }
  }

  #bare() {
    const start = this.#at;
    while (this.#at < this.text.length && !",]}#\r\n".includes(this.text[this.#at])) this.#at++;
    DATE.lastIndex = start;
    const date = this.onDate && DATE.exec(this.text)?.[1];
    if (date) this.onDate!(date, start);
    // White space before a comment is not the value's.
    while (this.text[this.#at - 1] === " " || this.text[this.#at - 1] === "\t") this.#at--;
  }

  /** Over white space, line ends, comments, and what else `also` names. */
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
    const whole = { ...key, line: this.#line, column: key.start - this.#lineStart + 1 };
    this.#keys.push(whole);
    return whole;
  }
}

const ESCAPES: Record<string, string> = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", e: "\x1b" };

/** The text of a basic string's inside. */
function unescape(inner: string): string {
  return inner.replace(
    /\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))/gs,
    (_, u, U, x, char) => {
      const hex = u ?? U ?? x;
      return hex ? String.fromCodePoint(parseInt(hex, 16)) : ESCAPES[char] ?? char;
    },
  );
}
