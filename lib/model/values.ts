/** The JSON values of a response, from bytes that are cut anywhere: one text, lines of it, or server-sent events. */
import { LINE_MAX, RESPONSE_MAX } from "./limit.ts";

/** How a response's values are framed. */
export type Framing = "json" | "lines" | "events";

/** The framing that a content type names. */
export function framingOf(contentType = ""): Framing {
  const type = contentType.toLowerCase();
  if (type.includes("event-stream")) return "events";
  return type.includes("ndjson") || type.includes("jsonl") || type.includes("json-seq") ? "lines" : "json";
}

/** Reads values as they come. What it throws is the end of its reading. */
export class Values {
  readonly #framing: Framing;
  readonly #take: (value: unknown) => void;
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #size = 0;
  /** `data` of the event that has not ended */
  #data: string[] = [];
  #dataSize = 0;

  constructor(framing: Framing, take: (value: unknown) => void) {
    this.#framing = framing;
    this.#take = take;
  }

  /** @throws {RangeError} for more than is read */
  push(bytes: Uint8Array): void {
    this.#read(this.#decoder.decode(bytes, { stream: true }));
  }

  /** @throws {SyntaxError} for text that is no JSON */
  end(): void {
    this.#read(this.#decoder.decode());
    const rest = this.#joined();
    if (this.#framing === "json") return this.#whole(rest);
    this.#line(rest);
    this.#line("");
  }

  #read(text: string): void {
    if (this.#framing === "json") return this.#keep(text, RESPONSE_MAX);
    let at = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", at)) {
      this.#keep(text.slice(at, end), LINE_MAX);
      at = end + 1;
      const line = this.#joined();
      this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
    this.#keep(text.slice(at), LINE_MAX);
  }

  #keep(text: string, max: number): void {
    if (text === "") return;
    this.#size += text.length;
    if (this.#size > max) throw new RangeError("longer than what is read");
    this.#pieces.push(text);
  }

  #joined(): string {
    const text = this.#pieces.join("");
    this.#pieces = [];
    this.#size = 0;
    return text;
  }

  #line(line: string): void {
    if (this.#framing === "lines") {
      if (line.trim() !== "") this.#take(JSON.parse(line));
    } else if (line === "") {
      const data = this.#data.join("\n");
      this.#data = [];
      this.#dataSize = 0;
      if (data.trim() !== "" && data.trim() !== "[DONE]") this.#take(JSON.parse(data));
    } else if (line.startsWith("data:")) {
      this.#dataSize += line.length;
      if (this.#dataSize > LINE_MAX) throw new RangeError("longer than what is read");
      this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }

  /** One text; a list is a stream of Google's, and what is none may be lines under a wrong type. */
  #whole(text: string): void {
    if (text.trim() === "") return;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      for (const line of text.split("\n")) if (line.trim() !== "") this.#take(JSON.parse(line));
      return;
    }
    for (const each of Array.isArray(value) ? value : [value]) this.#take(each);
  }
}
