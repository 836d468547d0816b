/** Keeps secrets that were sent to MCP servers out of the servers' answers. */
import { Buffer } from "node:buffer";
import { Finder } from "../../credential/mod.ts";
import { isDeeper } from "../../base/json/mod.ts";
import { ANSWER_BYTES_MAX, DEPTH_MAX, EVENT_BYTES_MAX } from "../limit.ts";
import { OutboundRefusal } from "./frame.ts";
import { joinBytes } from "../../base/bytes/mod.ts";

/** Nesting levels of a JSON-RPC message around its result. */
const ENVELOPE_LEVELS = 2;
/** A whole text of base64, plain or for URLs, that is long enough for a secret. */
const BASE64 = /^[A-Za-z0-9+/_\s-]{16,}={0,2}\s*$/;

/**
 * Replaces the secrets sent to servers in what any server says. Searches parsed values, because JSON
 * has many spellings of one text.
 */
export class SecretFilter {
  /** pairs of ref and secret; a renewed credential has several secrets */
  readonly #secrets: [ref: string, secret: string][] = [];
  #finder?: Finder;

  add(ref: string, secret: string): void {
    if (this.#secrets.some(([knownRef, known]) => known === secret && knownRef === ref)) return;
    this.#secrets.push([ref, secret]);
    this.#finder = new Finder(this.#secrets, { shapes: false });
  }

  /** Text with refs in place of secrets. */
  text(text: string): string {
    let out = "";
    let at = 0;
    for (const { start, end, ref } of this.#finder?.find(text) ?? []) {
      out += text.slice(at, start) + ref;
      at = end;
    }
    return at === 0 ? text : out + text.slice(at);
  }

  /**
   * Message as text, searched value by value if it is JSON.
   *
   * @throws {OutboundRefusal} JSON nested too deep to be searched
   */
  message(text: string): string {
    if (!this.#finder) return text;
    if (isDeeper(text, DEPTH_MAX + ENVELOPE_LEVELS)) {
      throw new OutboundRefusal(`the response is nested deeper than ${DEPTH_MAX} levels`);
    }
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return this.text(text);
    }
    return JSON.stringify(this.#value(value));
  }

  #value(value: unknown): unknown {
    if (typeof value === "string") return this.#string(value);
    if (typeof value === "number") {
      const digits = String(value);
      const replaced = this.text(digits);
      return replaced === digits ? value : replaced;
    }
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.#value(item));
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.text(name), this.#value(member)]),
    );
  }

  /** Searches base64, such as blobs, decoded too. */
  #string(text: string): string {
    if (!BASE64.test(text)) return this.text(text);
    const decoded = Buffer.from(text, "base64").toString("latin1");
    const replaced = this.text(decoded);
    return this.text(replaced === decoded ? text : Buffer.from(replaced, "latin1").toString("base64"));
  }
}

// Bodies of servers, searched for secrets message by message before they leave this process.

/** Search of one body. */
interface AnswerFilter {
  /** @returns the bytes that may be passed on. @throws {OutboundRefusal} a message that cannot be searched */
  push(chunk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /** @returns the bytes held back, at the end of the body */
  end(): Uint8Array<ArrayBuffer>;
}

const NOTHING = new Uint8Array(0);

/** Search of the body of a response to a request with this method. */
export function filterOf(
  { ok, headers }: Response,
  method: string | undefined,
  secrets: SecretFilter,
): AnswerFilter {
  // An MCP client reads any body of GET as a stream of events.
  const isStream = /event-stream/i.test(headers.get("content-type") ?? "") || (method === "GET" && ok);
  if (!isStream) return new WholeFilter(secrets, ANSWER_BYTES_MAX);
  return new EventFilter(secrets, method === "GET" ? EVENT_BYTES_MAX : ANSWER_BYTES_MAX);
}

/** A body that is one message. */
class WholeFilter implements AnswerFilter {
  readonly #secrets: SecretFilter;
  readonly #max: number;
  #chunks: Uint8Array<ArrayBuffer>[] = [];
  #size = 0;

  /** @param max `bytes` of the body */
  constructor(secrets: SecretFilter, max: number) {
    this.#secrets = secrets;
    this.#max = max;
  }

  push(chunk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    this.#size += chunk.length;
    if (this.#size > this.#max) throw new OutboundRefusal(`the response exceeds ${this.#max} bytes`);
    this.#chunks.push(chunk);
    return NOTHING;
  }

  end(): Uint8Array<ArrayBuffer> {
    const text = new TextDecoder().decode(joinBytes(this.#chunks));
    this.#chunks = [];
    return new TextEncoder().encode(this.#secrets.message(text));
  }
}

/** A stream of server-sent events, each with one message as its data. */
export class EventFilter implements AnswerFilter {
  readonly #secrets: SecretFilter;
  readonly #max: number;
  readonly #decoder = new TextDecoder();
  /** pieces of the line that has not ended */
  #line: string[] = [];
  #lines: string[] = [];
  #size = 0;
  #endsWithReturn = false;

  /** @param max `bytes` of one event */
  constructor(secrets: SecretFilter, max: number) {
    this.#secrets = secrets;
    this.#max = max;
  }

  push(chunk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    return this.#read(this.#decoder.decode(chunk, { stream: true }));
  }

  end(): Uint8Array<ArrayBuffer> {
    const rest = this.#read(this.#decoder.decode());
    if (this.#line.length > 0) this.#lines.push(this.#line.join(""));
    // An event without its empty line does not count; it is passed on for limits and ids.
    return joinBytes([rest, new TextEncoder().encode(this.#takeEvent())]);
  }

  /** Reads lines that end in CR, LF or both. @returns the events that are complete */
  #read(text: string): Uint8Array<ArrayBuffer> {
    if (this.#endsWithReturn && text.startsWith("\n")) text = text.slice(1);
    else if (text === "") return NOTHING;
    this.#endsWithReturn = text.endsWith("\r");
    const ends = text.split(/\r\n|\n|\r/);
    const open = ends.pop()!;
    const events: string[] = [];
    for (const end of ends) {
      this.#add(end);
      const line = this.#line.join("");
      this.#line = [];
      if (line !== "") this.#lines.push(line);
      else events.push(`${this.#takeEvent()}\n`);
    }
    this.#add(open);
    return new TextEncoder().encode(events.join(""));
  }

  /** Adds a piece of a line. */
  #add(piece: string): void {
    this.#size += piece.length + 1;
    if (this.#size > this.#max) {
      throw new OutboundRefusal(`an event of the server's stream exceeds ${this.#max} bytes`);
    }
    if (piece !== "") this.#line.push(piece);
  }

  /** The fields of the event so far, searched; its data is one field. */
  #takeEvent(): string {
    const data: string[] = [];
    const fields: string[] = [];
    for (const line of this.#lines) {
      const value = /^data(?:: ?(.*))?$/s.exec(line);
      if (!value) fields.push(this.#secrets.text(line));
      else data.push(value[1] ?? "");
    }
    if (data.length > 0) {
      for (const line of this.#secrets.message(data.join("\n")).split("\n")) fields.push(`data: ${line}`);
    }
    this.#lines = [];
    this.#size = 0;
    return fields.map((field) => `${field}\n`).join("");
  }
}
