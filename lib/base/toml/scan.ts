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
 * Finds every key of a TOML text. The parser must have accepted the text: this scanner knows only enough grammar to
 * skip strings, comments and brackets.
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
