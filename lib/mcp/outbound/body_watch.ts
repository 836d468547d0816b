/** Limits on the bodies of servers' responses, applied before the MCP client reads them. */
import { ANSWER_BYTES_MAX, EVENT_BYTES_MAX, STREAM_BYTES_PER_SECOND } from "../limit.ts";

/** Inspects each chunk of a body. */
export interface BodyWatch {
  /** @throws to abort the body; a promise delays the next chunk */
  chunk(bytes: Uint8Array): Promise<void> | void;
  /** called at the end of the body, with the failure that ended it */
  end?(failure?: Error): void;
}

/** Limits the response to one request. */
export class AnswerWatch implements BodyWatch {
  readonly #onEnd: (reason: string, isResumable: boolean) => void;
  #bytes = 0;
  #isResumable = false;

  /**
   * @param onEnd called at the end of the body; the answer of a resumable
   * response may follow on another stream
   */
  constructor(onEnd: (reason: string, isResumable: boolean) => void) {
    this.#onEnd = onEnd;
  }

  chunk(bytes: Uint8Array): void {
    // The MCP transport requires an event with an id before a response can be resumed.
    if (this.#bytes === 0) this.#isResumable = bytes[0] === ID_LINE[1] || includes(bytes, ID_LINE);
    this.#bytes += bytes.length;
    if (this.#bytes > ANSWER_BYTES_MAX) {
      throw new TypeError(
        `the response exceeds ${ANSWER_BYTES_MAX} bytes: ask the server for less, or let it return a link to a resource`,
      );
    }
  }

  end(failure?: Error): void {
    this.#onEnd(failure?.message ?? "the response ended without an answer", !failure && this.#isResumable);
  }
}

/** Limits the rate of a stream that a server may keep open indefinitely. */
export class RateWatch implements BodyWatch {
  #secondBytes = 0;
  #secondStart = performance.now();

  chunk({ length }: Uint8Array): Promise<void> | void {
    this.#secondBytes += length;
    const passed = performance.now() - this.#secondStart;
    if (passed > 1000) {
      this.#secondBytes = length;
      this.#secondStart = performance.now();
    } else if (this.#secondBytes > STREAM_BYTES_PER_SECOND) {
      return new Promise((resolve) => setTimeout(resolve, 1000 - passed));
    }
  }
}

/** Limits a stream of events that a server may keep open indefinitely. */
export class StreamWatch implements BodyWatch {
  readonly #rate = new RateWatch();
  #eventBytes = 0;
  #wasNewline = false;

  chunk(bytes: Uint8Array): Promise<void> | void {
    for (const byte of bytes) {
      this.#eventBytes++;
      if (byte === 13) continue;
      // An empty line ends an event.
      if (byte === 10 && this.#wasNewline) this.#eventBytes = 0;
      this.#wasNewline = byte === 10;
    }
    if (this.#eventBytes > EVENT_BYTES_MAX) {
      throw new TypeError(`an event of the server's stream exceeds ${EVENT_BYTES_MAX} bytes`);
    }
    return this.#rate.chunk(bytes);
  }
}

/** Begin of the field `id`, behind another line. Of the fields of an event, it alone begins with an i. */
const ID_LINE = new TextEncoder().encode("\nid:");

function includes(bytes: Uint8Array, pattern: Uint8Array): boolean {
  for (let at = bytes.indexOf(pattern[0]); at >= 0; at = bytes.indexOf(pattern[0], at + 1)) {
    if (pattern.every((byte, i) => bytes[at + i] === byte)) return true;
  }
  return false;
}
