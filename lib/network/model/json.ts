/** Accessors for untrusted JSON: a value of another type counts as absent. */
import { parseJson } from "../../base/json/mod.ts";
import { JSON_DEPTH_MAX, LINE_MAX, NAME_MAX, RESPONSE_MAX } from "./limit.ts";

export { objectOf } from "../../base/object/mod.ts";

export type Json = Record<string, unknown>;

export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Non-empty string, truncated to `NAME_MAX` characters. */
export function nameOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, NAME_MAX) : undefined;
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Non-negative safe integer, such as a token count. */
export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses JSON; a text that cannot be parsed, or is nested too deep, stays a string. */
export function parseJsonOrText(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    return json;
  }
}

// Keys of JSON texts, which `JSON.parse` forgets when they repeat.

const QUOTE = 34;
const COLON = 58;
const OPEN = new Set([0x5b, 0x7b]);
const CLOSE = new Set([0x5d, 0x7d]);

/**
 * Finds why receivers may read a JSON text differently: a key that repeats within an object, of which some
 * take the first and some the last, or deep nesting, which some refuse.
 *
 * @param text valid JSON
 * @returns a clause about the body; `undefined` for a text that everybody reads the same
 */
export function findAmbiguity(text: string): string | undefined {
  /** keys of each open object or list; absent before the first one */
  const open: (Set<string> | undefined)[] = [];
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = stringEnd(text, at);
      const colon = skipSpace(text, end);
      if (text.charCodeAt(colon) === COLON) {
        const key = JSON.parse(text.slice(at, end)) as string;
        const keys = open[open.length - 1] ??= new Set();
        if (keys.has(key)) return `its body repeats the key ${JSON.stringify(key.slice(0, 40))}`;
        keys.add(key);
        at = colon + 1;
      } else at = end;
      continue;
    }
    if (OPEN.has(code)) open.push(undefined);
    else if (CLOSE.has(code)) open.pop();
    if (open.length > JSON_DEPTH_MAX) return `its body is nested more than ${JSON_DEPTH_MAX} deep`;
    at++;
  }
}

/** Offset behind a string that begins at `start`. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1);; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (" \t\r\n".includes(text[at] ?? "x")) at++;
  return at;
}

// JSON values of a response, from arbitrarily split bytes: one text, lines, or server-sent events.

/** Framing of a response's values. */
type Framing = "json" | "lines" | "events";

/** Framing by content type. */
export function framingOf(contentType = ""): Framing {
  const type = contentType.toLowerCase();
  if (type.includes("event-stream")) return "events";
  return type.includes("ndjson") || type.includes("jsonl") || type.includes("json-seq") ? "lines" : "json";
}

/** Emits values as bytes arrive. Not usable after it has thrown. */
export class ValueReader {
  readonly #framing: Framing;
  readonly #onValue: (value: unknown) => void;
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #size = 0;
  /** `data` lines of the unfinished event */
  #data: string[] = [];
  #dataSize = 0;

  constructor(framing: Framing, onValue: (value: unknown) => void) {
    this.#framing = framing;
    this.#onValue = onValue;
  }

  /** @throws {RangeError} a limit is exceeded @throws {SyntaxError} invalid JSON, or nested too deep */
  push(bytes: Uint8Array): void {
    this.#read(this.#decoder.decode(bytes, { stream: true }));
  }

  /** @throws {RangeError} a limit is exceeded @throws {SyntaxError} invalid JSON, or nested too deep */
  end(): void {
    this.#read(this.#decoder.decode());
    const rest = this.#takeBuffer();
    if (this.#framing === "json") return this.#readText(rest);
    this.#readLine(rest);
    this.#readLine("");
  }

  #read(text: string): void {
    if (this.#framing === "json") return this.#buffer(text, RESPONSE_MAX);
    let at = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", at)) {
      this.#buffer(text.slice(at, end), LINE_MAX);
      at = end + 1;
      const line = this.#takeBuffer();
      this.#readLine(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
    this.#buffer(text.slice(at), LINE_MAX);
  }

  #buffer(text: string, max: number): void {
    if (text === "") return;
    this.#size += text.length;
    if (this.#size > max) throw new RangeError(`longer than ${max} characters`);
    this.#pieces.push(text);
  }

  /** Empties the buffer and returns its text. */
  #takeBuffer(): string {
    const text = this.#pieces.join("");
    this.#pieces = [];
    this.#size = 0;
    return text;
  }

  #readLine(line: string): void {
    if (this.#framing === "lines") {
      if (line.trim() !== "") this.#onValue(parseJson(line, JSON_DEPTH_MAX));
    } else if (line === "") {
      const data = this.#data.join("\n");
      this.#data = [];
      this.#dataSize = 0;
      if (data.trim() !== "" && data.trim() !== "[DONE]") this.#onValue(parseJson(data, JSON_DEPTH_MAX));
    } else if (line.startsWith("data:")) {
      this.#dataSize += line.length;
      if (this.#dataSize > LINE_MAX) throw new RangeError(`longer than ${LINE_MAX} characters`);
      this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }

  /**
   * Reads one JSON text. Google streams a list; text that is not JSON may be lines with a wrong content type.
   */
  #readText(text: string): void {
    if (text.trim() === "") return;
    let value: unknown;
    try {
      value = parseJson(text, JSON_DEPTH_MAX);
    } catch {
      for (const line of text.split("\n")) {
        if (line.trim() !== "") this.#onValue(parseJson(line, JSON_DEPTH_MAX));
      }
      return;
    }
    for (const item of Array.isArray(value) ? value : [value]) this.#onValue(item);
  }
}
