/**
 * Reads untrusted JSON of model calls: accessors for which a value of another type is absent, a check for
 * texts that receivers could read differently, and a reader of the values in a streamed response.
 */
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

// Ambiguity: `JSON.parse` keeps only the last of repeated keys, and another receiver may keep the first.

const QUOTE = '"'.charCodeAt(0);
const COLON = ":".charCodeAt(0);
const OPEN = new Set(Array.from("[{", (bracket) => bracket.charCodeAt(0)));
const CLOSE = new Set(Array.from("]}", (bracket) => bracket.charCodeAt(0)));

/**
 * Finds a reason why receivers may read a JSON text differently: a repeated key of an object, of which some
 * take the first and some the last, or deep nesting, which some refuse.
 *
 * @param text valid JSON
 * @returns the reason as a clause about the body; `undefined` for an unambiguous text
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

/** Offset behind the string literal that begins at `start`. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1);; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && " \t\r\n".includes(text[at])) at++;
  return at;
}

// Values of a response.

/** Framing of a response's values: one JSON text, a text a line, or server-sent events. */
type Framing = "json" | "lines" | "events";

/** Framing by content type. */
export function framingOf(contentType = ""): Framing {
  const type = contentType.toLowerCase();
  if (type.includes("event-stream")) return "events";
  return type.includes("ndjson") || type.includes("jsonl") || type.includes("json-seq") ? "lines" : "json";
}

/**
 * Emits the values of a response as its bytes arrive, however they are split. Not usable after it has thrown.
 */
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
