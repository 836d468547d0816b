/** Server-sent events (WHATWG HTML standard). */
import { ignore, SbxError } from "../base/error/mod.ts";

/** One event. */
export interface ServerEvent {
  /** event name; `message` when the stream gives none */
  event: string;
  data: string;
}

/**
 * Parses chunks of text into events. An event cut off by the end of the stream is dropped, as the standard
 * requires.
 */
export class SseParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** Returns the events completed by `text`. */
  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    this.#rest += text;
    let start = 0;
    while (true) {
      const end = lineEnd(this.#rest, start);
      if (end === undefined) break;
      this.#line(this.#rest.slice(start, end.at), events);
      start = end.next;
    }
    this.#rest = this.#rest.slice(start);
    return events;
  }

  #line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        events.push({ event: this.#event || "message", data: this.#data.join("\n") });
      }
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "event") this.#event = value;
    if (field === "data") this.#data.push(value);
  }
}

/**
 * Finds the end of a line: LF, CRLF or CR. A CR at the end of the text may be half of a CRLF and does not
 * count yet.
 */
function lineEnd(text: string, from: number): { at: number; next: number } | undefined {
  const lf = text.indexOf("\n", from);
  const cr = text.slice(from, lf < 0 ? undefined : lf).indexOf("\r") + from;
  if (cr >= from) {
    if (cr === text.length - 1) return undefined;
    return { at: cr, next: text[cr + 1] === "\n" ? cr + 2 : cr + 1 };
  }
  return lf < 0 ? undefined : { at: lf, next: lf + 1 };
}

/**
 * Reads the events of a running program's response as they arrive.
 *
 * @throws {SbxError} `service.gone`: the connection broke before the service closed it
 */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  const parser = new SseParser();
  const reader = body.getReader();
  try {
    while (true) {
      const { value, done } = await reader.read().catch((cause) => {
        throw connectionError(cause);
      });
      if (done) break;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
    yield* parser.push(decoder.decode());
  } finally {
    await reader.cancel().catch(ignore("the connection is gone"));
  }
}

/** Converts a read error to `service.gone`; keeps the caller's own abort. */
function connectionError(cause: unknown): unknown {
  if ((cause as Error)?.name === "AbortError" || cause instanceof SbxError) return cause;
  return new SbxError("service.gone", "the service went away while the program ran", {
    cause,
    hint:
      "the program was ended; its VM keeps running, unless it is one of sbx run: sbx list starts the service again; then run " +
      "the program again",
  });
}
