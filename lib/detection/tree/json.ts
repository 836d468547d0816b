import { DEPTH_MAX, type Entry, requireUnique, type ScalarNode, TreeError, type TreeNode } from "./tree.ts";

/** A token and the white space before it. */
const TOKEN = /[ \t\n\r]*(?:("(?:[^"\\]|\\.)*")|([{}[\],:])|([^\s{}[\],:"]+))/gy;

/**
 * Reads JSON with the line of each value. `JSON.parse` looks whether it is JSON at all, and would take the last of
 * two equal keys without a word; here that is an error.
 *
 * @throws {TreeError}
 */
export function parseJson(text: string): TreeNode {
  try {
    JSON.parse(text);
  } catch (error) {
    throw syntaxError(text, error as Error);
  }
  return new Reader(text).value(0);
}

/** Walks over the tokens of a text that is known to be JSON. */
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
    requireUnique(entries);
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

  /** The next token; the line is that on which it begins. */
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
  // Without a position the text ended too early.
  const line = text.slice(0, positionIn(message) ?? text.length).split("\n").length;
  return new TreeError("syntax", line, `not JSON: ${jsonReason(text, message)}`);
}

function positionIn(message: string): number | undefined {
  const position = /position (\d+)/.exec(message)?.[1];
  return position === undefined ? undefined : Number(position);
}

/** What V8 says is wrong with a JSON text, in few words and without the text itself. */
export function jsonReason(text: string, message: string): string {
  const isEnd = (positionIn(message) ?? 0) >= text.trimEnd().length;
  if (isEnd || /end of|Unterminated/.test(message)) return "it ends too early";
  if (/after/.test(message)) return "something stands after its end, or a comma is missing";
  return message.replace(/,? ?(\.\.\.)?"[\s\S]*$/, "").replace(/ in JSON at position[\s\S]*$/, "").trim() ||
    "a character that cannot stand there";
}
