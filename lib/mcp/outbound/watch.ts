/** What looks at the bytes of an answer before the MCP client does. */
import { ANSWER_BYTES_MAX, EVENT_BYTES_MAX, STREAM_BYTES_PER_SECOND } from "../limit.ts";

/** Looks at every piece of a body in turn. */
export interface BodyWatch {
  /** @throws when there must be no more of it; a promise makes it wait */
  chunk(bytes: Uint8Array): Promise<void> | void;
  /** the body ended, or broke off for this reason */
  end?(failure?: Error): void;
}

/** Bounds the answer to one request. */
export class AnswerWatch implements BodyWatch {
  readonly #onEnd: (reason: string, isResumable: boolean) => void;
  #bytes = 0;
  #isResumable = false;

  /** @param onEnd called at the end, whether the answer was in it or not; a resumable one may go on elsewhere */
  constructor(onEnd: (reason: string, isResumable: boolean) => void) {
    this.#onEnd = onEnd;
  }

  chunk(bytes: Uint8Array): void {
    // An event with an id, as the MCP transport asks for before an answer that can be resumed.
    if (this.#bytes === 0) this.#isResumable = bytes[0] === 0x69 || includes(bytes, ID_LINE);
    this.#bytes += bytes.length;
    if (this.#bytes > ANSWER_BYTES_MAX) throw new TypeError(`its answer is over ${ANSWER_BYTES_MAX} bytes`);
  }

  end(failure?: Error): void {
    this.#onEnd(failure?.message ?? "it ended its answer without answering", !failure && this.#isResumable);
  }
}

/** Bounds a stream that a server may keep open for ever. */
export class StreamWatch implements BodyWatch {
  #event = 0;
  #wasNewline = false;
  #second = 0;
  #began = performance.now();

  chunk(bytes: Uint8Array): Promise<void> | void {
    for (const byte of bytes) {
      this.#event++;
      if (byte === 13) continue;
      // An empty line ends an event.
      if (byte === 10 && this.#wasNewline) this.#event = 0;
      this.#wasNewline = byte === 10;
    }
    if (this.#event > EVENT_BYTES_MAX) {
      throw new TypeError(`an event of its stream is over ${EVENT_BYTES_MAX} bytes`);
    }
    this.#second += bytes.length;
    const passed = performance.now() - this.#began;
    if (passed > 1000) {
      this.#second = bytes.length;
      this.#began = performance.now();
    } else if (this.#second > STREAM_BYTES_PER_SECOND) {
      return new Promise((resolve) => setTimeout(resolve, 1000 - passed));
    }
  }
}

const ID_LINE = new TextEncoder().encode("\nid:");

function includes(bytes: Uint8Array, what: Uint8Array): boolean {
  for (let at = bytes.indexOf(what[0]); at >= 0; at = bytes.indexOf(what[0], at + 1)) {
    if (what.every((byte, i) => bytes[at + i] === byte)) return true;
  }
  return false;
}
