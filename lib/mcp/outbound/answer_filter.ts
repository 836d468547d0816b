/** Bodies of servers, searched for secrets message by message before they leave this process. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { ANSWER_BYTES_MAX, EVENT_BYTES_MAX } from "../limit.ts";
import { OutboundRefusal } from "./refusal.ts";
import type { SecretFilter } from "./secret.ts";

/** Search of one body. */
export interface AnswerFilter {
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
export class WholeFilter implements AnswerFilter {
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
