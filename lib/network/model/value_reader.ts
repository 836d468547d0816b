/** JSON values of a response, from arbitrarily split bytes: one text, lines, or server-sent events. */
import { parseJson } from "../../base/json/mod.ts";
import { JSON_DEPTH_MAX, LINE_MAX, RESPONSE_MAX } from "./limit.ts";

/** Framing of a response's values. */
export type Framing = "json" | "lines" | "events";

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

  /** Reads one JSON text. Google streams a list; text that is not JSON may be lines with a wrong content type. */
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
