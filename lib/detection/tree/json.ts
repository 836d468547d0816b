import {
  DEPTH_MAX,
  type Entry,
  requireUniqueKeys,
  type ScalarNode,
  TreeError,
  type TreeNode,
} from "./tree.ts";

/** A token and the white space before it. */
const TOKEN = /[ \t\n\r]*(?:("(?:[^"\\]|\\.)*")|([{}[\],:])|([^\s{}[\],:"]+))/gy;

/**
 * Parses JSON and keeps the line of each value. `JSON.parse` checks the syntax; duplicate keys,
 * which it accepts, are errors here.
 *
 * @throws {TreeError} invalid JSON, a duplicate key, or nesting that is too deep
 */
export function parseJson(text: string): TreeNode {
  try {
    JSON.parse(text);
  } catch (error) {
    throw syntaxError(text, error as Error);
  }
  return new Reader(text).value(0);
}

/** Reads the tokens of a text already validated as JSON. */
class Reader {
  #line = 1;
  #counted = 0;

  constructor(readonly text: string) {
    TOKEN.lastIndex = 0;
  }

  value(depth: number, token = this.#next()): TreeNode {
    const line = this.#line;
    if (depth > DEPTH_MAX) throw new TreeError("nesting", line, `nested deeper than ${DEPTH_MAX} levels`);
    if (token === "[") return { kind: "list", line, items: this.#items(depth) };
    if (token !== "{") return { kind: "scalar", line, value: JSON.parse(token) as ScalarNode["value"] };
    const entries = this.#entries(depth);
    requireUniqueKeys(entries);
    return { kind: "map", line, entries };
  }

  #items(depth: number): TreeNode[] {
    const items: TreeNode[] = [];
    for (let token = this.#next(); token !== "]"; token = this.#next()) {
      if (token !== ",") items.push(this.value(depth + 1, token));
    }
    return items;
  }

  #entries(depth: number): Entry[] {
    const entries: Entry[] = [];
    for (let token = this.#next(); token !== "}"; token = this.#next()) {
      if (token === ",") continue;
      const [key, line] = [JSON.parse(token) as string, this.#line];
      this.#next();
      entries.push({ key, line, value: this.value(depth + 1) });
    }
    return entries;
  }

  /** Reads the next token and advances `#line` to the line it begins on. */
  #next(): string {
    const from = TOKEN.lastIndex;
    const [all, text, mark, word] = TOKEN.exec(this.text)!;
    const token = text ?? mark ?? word;
    this.#count(from + all.length - token.length);
    return token;
  }

  #count(offset: number): void {
    for (let at = this.text.indexOf("\n", this.#counted); at >= 0 && at < offset;) {
      this.#line++;
      at = this.text.indexOf("\n", at + 1);
    }
    this.#counted = offset;
  }
}

function syntaxError(text: string, { message }: Error): TreeError {
  // An error without a position is an unexpected end.
  const line = text.slice(0, positionOf(message) ?? text.length).split("\n").length;
  return new TreeError("syntax", line, `invalid JSON: ${explainJsonError(text, message)}`);
}

function positionOf(message: string): number | undefined {
  const position = /position (\d+)/.exec(message)?.[1];
  return position === undefined ? undefined : Number(position);
}

/** Shortens V8's message about invalid JSON, and removes the quoted input from it. */
export function explainJsonError(text: string, message: string): string {
  const isEnd = (positionOf(message) ?? 0) >= text.trimEnd().length;
  if (isEnd || /end of|Unterminated/.test(message)) return "unexpected end of input";
  if (/after/.test(message)) return "text after the end of the value, or a missing comma";
  return message.replace(/,? ?(\.\.\.)?"[\s\S]*$/, "").replace(/ in JSON at position[\s\S]*$/, "").trim() ||
    "unexpected character";
}
