/** Server-sent events, as the WHATWG HTML standard frames them. */
import { SbxError } from "../base/error/mod.ts";

/** One event. */
export interface ServerEvent {
  /** `message` when the stream does not name it */
  event: string;
  data: string;
}

/** Turns text, however it is cut, into events. An event that the stream's end cuts off is dropped, as the standard says. */
export class SseParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** The events that `text` completes. */
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

/** A line ends with LF, CRLF or CR; a CR at the very end may be half of a CRLF, so it waits. */
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
 * The events of a running program's response, as they come.
 *
 * @throws {SbxError} `service.gone` when the connection breaks: a service that ends its answer closes it
 */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  const parser = new SseParser();
  const reader = body.getReader();
  try {
    while (true) {
      const { value, done } = await reader.read().catch((cause) => {
        throw gone(cause);
      });
      if (done) break;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
    yield* parser.push(decoder.decode());
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Who ended the request itself hears of that, and of nothing else. */
function gone(cause: unknown): unknown {
  if ((cause as Error)?.name === "AbortError" || cause instanceof SbxError) return cause;
  return new SbxError("service.gone", "the service went away while the program ran", {
    cause,
    hint:
      "the program was ended, and its VM goes on: sbx list starts the service again and shows it; then run it again",
  });
}
