/** Texts that differ from an earlier one in their values only, recognized without parsing them. */

/** Longest text that is compared or learned, in characters. */
const TEXT_MAX = 16_384;
/** Most values of a text that is learned. */
const VALUES_MAX = 512;
/** Most shapes at a time; the one used last is tried first. */
const SHAPES_MAX = 16;
/** Texts after which the share that needed no parsing is checked. */
const WINDOW = 1024;
/** Windows without comparisons after one in which most texts were parsed all the same. */
const PAUSE = 16;

/** Patterns of values as they are written without escapes, each with one group. */
const LEAVES: Record<string, string> = {
  string: '"([^"\\\\\\x00-\\x1f]*)"',
  number: "(-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)",
  boolean: "(true|false)",
};

/** Role of a value in a pattern: read, any of its type, or exactly this one. */
export type LeafRole = "read" | "any" | "fixed";

/**
 * Pattern of the compact JSON of `value`, and of all JSON with the same keys, order and types. A text that it
 * matches is valid, and no deeper than that JSON; no key occurs twice.
 *
 * @param roleOf called for each value with its path, in the order of the text; the role of objects and lists
 * is `fixed`, or that of their values
 * @returns `undefined` if there are too many values
 */
export function jsonPattern(
  value: object,
  roleOf: (path: string, holder: object, key: string) => LeafRole,
): RegExp | undefined {
  let values = 0;
  const patternOf = (each: unknown, path: string, holder: object, key: string): string => {
    if (++values > VALUES_MAX) return "";
    const role = roleOf(path, holder, key);
    if (role === "fixed" || each === null) return escape(JSON.stringify(each));
    if (typeof each !== "object") {
      const leaf = LEAVES[typeof each];
      return role === "read" ? leaf : leaf.replace("(", "(?:");
    }
    const isList = Array.isArray(each);
    const members = Object.entries(each).map(([name, inner]) => {
      const pattern = patternOf(inner, path === "" ? name : `${path}.${name}`, each, name);
      return isList ? pattern : `${escape(JSON.stringify(name))}:${pattern}`;
    });
    return isList ? `\\[${members.join(",")}\\]` : `\\{${members.join(",")}\\}`;
  };
  const source = patternOf(value, "", value, "");
  return values > VALUES_MAX ? undefined : new RegExp(`^${source}$`);
}

function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** Shape of a text, with data of its owner. */
export interface KnownShape<T> {
  pattern: RegExp;
  of: T;
}

/** Shapes of the texts seen so far. A list of texts that all differ is soon read without comparisons. */
export class KnownTexts<T> {
  #shapes: KnownShape<T>[] = [];
  #texts = 0;
  #spared = 0;
  #paused = 0;

  /** @returns the text's shape and the values in its pattern; `undefined` if the text must be parsed */
  match(text: string): { of: T; values: RegExpExecArray } | undefined {
    if (!this.#isWorth() || text.length > TEXT_MAX) return undefined;
    for (let at = 0; at < this.#shapes.length; at++) {
      const shape = this.#shapes[at];
      const values = shape.pattern.exec(text);
      if (values === null) continue;
      if (at > 0) [this.#shapes[0], this.#shapes[at]] = [shape, this.#shapes[0]];
      return { of: shape.of, values };
    }
    return undefined;
  }

  /** Counts a text that was not parsed. */
  spare(): void {
    this.#spared++;
  }

  /** Learns the shape of a text that was parsed and has no problem. */
  learn(text: string, shapeOf: () => KnownShape<T> | undefined): void {
    if (this.#shapes.length === SHAPES_MAX || this.#paused > 0 || text.length > TEXT_MAX) return;
    const shape = shapeOf();
    // White space, escapes and keys that occur twice are not in the pattern.
    if (shape?.pattern.test(text)) this.#shapes.unshift(shape);
  }

  #isWorth(): boolean {
    if (this.#paused > 0) return --this.#paused === 0;
    if (++this.#texts < WINDOW) return true;
    if (this.#spared < this.#texts / 2) [this.#paused, this.#shapes] = [PAUSE * WINDOW, []];
    [this.#texts, this.#spared] = [0, 0];
    return this.#paused === 0;
  }
}
