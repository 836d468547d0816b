import {
  boolCoreTag,
  type DocumentEvent,
  type Event,
  EVENT_ID,
  floatCoreTag,
  getScalarValue,
  intCoreTag,
  NOT_RESOLVED,
  nullCoreTag,
  parseEvents,
  SCALAR_STYLE,
  type ScalarEvent,
  YAMLException,
} from "js-yaml";
import {
  DEPTH_MAX,
  type Entry,
  requireUniqueKeys,
  type ScalarNode,
  TreeError,
  type TreeNode,
} from "./tree.ts";

/**
 * Parses a subset of YAML 1.2: maps with string keys, lists and scalars. Constructs that other parsers read
 * differently are errors: anchors, aliases, tags, directives and duplicate keys.
 *
 * @returns the documents of the text, possibly none
 * @throws {TreeError} invalid or unsupported YAML
 */
export function parseYamlAll(text: string): TreeNode[] {
  return new Reader(text).documents();
}

/**
 * Parses YAML text with exactly one document.
 *
 * @throws {TreeError} invalid or unsupported YAML, no document, or several
 */
export function parseYaml(text: string): TreeNode {
  const documents = parseYamlAll(text);
  if (documents.length === 0) throw new TreeError("empty", 1, "the text is empty");
  if (documents.length > 1) {
    throw new TreeError(
      "multi-document",
      documents[1].line,
      "a second YAML document begins here; write one document, or one list",
    );
  }
  return documents[0];
}

/** Builds a tree from the parser's events; tags and aliases are rejected before anything is constructed. */
class Reader {
  readonly #events: Event[];
  readonly #lines: LineFinder;
  #at = 0;

  constructor(readonly text: string) {
    this.#lines = new LineFinder(text);
    try {
      this.#events = parseEvents(text, { maxDepth: DEPTH_MAX });
    } catch (error) {
      if (error instanceof YAMLException) throw syntaxError(text, error);
      throw error;
    }
  }

  documents(): TreeNode[] {
    const documents: TreeNode[] = [];
    while (this.#at < this.#events.length) {
      const event = this.#events[this.#at++];
      if (event.type === EVENT_ID.DOCUMENT) documents.push(this.#document(event));
    }
    return documents;
  }

  #document({ directives }: DocumentEvent): TreeNode {
    if (directives.length) {
      throw new TreeError("directive", 1, "YAML directives (%…) are not supported; remove it");
    }
    return this.#node(this.#events[this.#at++], this.#lines.last);
  }

  /** @param above line for a node without a position: a missing value */
  #node(event: Event, above: number): TreeNode {
    if (event.type === EVENT_ID.ALIAS) {
      const name = this.text.slice(event.anchorStart, event.anchorEnd);
      const instead = "write the value itself, in quotes if it begins with *";
      throw new TreeError(
        "alias",
        this.#lines.at(event.anchorStart),
        `the alias *${name} is not supported; ${instead}`,
      );
    }
    this.#rejectProperties(event as ScalarEvent);
    if (event.type === EVENT_ID.SCALAR) return this.#scalar(event, above);
    const line = this.#lines.at((event as { start: number }).start);
    if (event.type === EVENT_ID.SEQUENCE) {
      const items: TreeNode[] = [];
      for (let next = this.#next(); next; next = this.#next()) {
        items.push(this.#node(next, items.at(-1)?.line ?? line));
      }
      return { kind: "list", line, items };
    }
    const entries: Entry[] = [];
    for (let next = this.#next(); next; next = this.#next()) entries.push(this.#entry(next, line));
    requireUniqueKeys(entries);
    return { kind: "map", line, entries };
  }

  /** Next event of a collection; `undefined` at its end. */
  #next(): Event | undefined {
    const event = this.#events[this.#at++];
    return event.type === EVENT_ID.POP ? undefined : event;
  }

  #entry(event: Event, above: number): Entry {
    const key = this.#node(event, above);
    if (key.kind !== "scalar") throw new TreeError("key", key.line, "a key must be a string");
    if (typeof key.value !== "string") {
      throw new TreeError("key", key.line, `the key ${key.plain} is not a string; put it in quotes`);
    }
    return { key: key.value, line: key.line, value: this.#node(this.#next()!, key.line) };
  }

  #scalar(event: ScalarEvent, above: number): ScalarNode {
    const { valueStart, style } = event;
    // A missing value: `key:`
    if (valueStart < 0) return { kind: "scalar", line: above, value: null, plain: "" };
    const line = this.#lines.at(valueStart);
    const text = getScalarValue(this.text, event);
    if (style === SCALAR_STYLE.PLAIN) return { kind: "scalar", line, value: resolvePlain(text), plain: text };
    // The text of a `|` block begins on the next line; all other styles fold lines.
    if (style === SCALAR_STYLE.LITERAL_BLOCK) {
      return { kind: "scalar", line: above, value: text, textLine: line };
    }
    return { kind: "scalar", line, value: text };
  }

  #rejectProperties({ tagStart, tagEnd, anchorStart }: ScalarEvent): void {
    if (tagStart >= 0) {
      const tag = this.text.slice(tagStart, tagEnd);
      throw new TreeError("tag", this.#lines.at(tagStart), `the tag ${tag} is not supported; remove it`);
    }
    if (anchorStart >= 0) {
      const message = "an anchor (&…) is not supported; write the value where it is used";
      throw new TreeError("alias", this.#lines.at(anchorStart), message);
    }
  }
}

/** Resolves a plain scalar by YAML 1.2's core schema. */
function resolvePlain(text: string): ScalarNode["value"] {
  for (const tag of [nullCoreTag, boolCoreTag, intCoreTag, floatCoreTag]) {
    const value = tag.resolve(text, false, tag.tagName);
    if (value !== NOT_RESOLVED) return value as ScalarNode["value"];
  }
  return text;
}

/** Converts offsets to line numbers; fastest for increasing offsets. */
class LineFinder {
  #line = 1;
  #counted = 0;

  constructor(readonly text: string) {}

  /** Line of the last offset. */
  get last(): number {
    return this.#line;
  }

  at(offset: number): number {
    if (offset < this.#counted) [this.#line, this.#counted] = [1, 0];
    for (
      let at = this.text.indexOf("\n", this.#counted);
      at >= 0 && at < offset;
      at = this.text.indexOf("\n", at + 1)
    ) {
      this.#line++;
    }
    this.#counted = offset;
    return this.#line;
  }
}

function syntaxError(text: string, { reason, mark }: YAMLException): TreeError {
  const line = (mark?.line ?? 0) + 1;
  if (/^[ ]*\t/.test(text.split("\n")[line - 1] ?? "")) {
    return new TreeError("tab", line, "this line is indented with a tab; use spaces");
  }
  if (/maxDepth/.test(reason)) {
    return new TreeError("nesting", line, `nested deeper than ${DEPTH_MAX} levels`);
  }
  return new TreeError("syntax", line, `invalid YAML: ${reason}`);
}
