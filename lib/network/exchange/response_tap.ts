/** Readers of a response as it passes. */
import type { Gate } from "../../policy/mod.ts";
import type { Header } from "../message/header.ts";
import type { LaterAnswer } from "../interface/mod.ts";

/** How far a request and its answer got. */
export interface TapEnd {
  /** nothing of the request was sent */
  unsent?: boolean;
  /** the answer came to its end, whether or not the client took it */
  complete?: boolean;
}

/** Reads a response as it passes; it never disturbs it. */
export interface ResponseTap {
  /** a budget counts the call: its answer is read on when the client is gone */
  readonly isCounted: boolean;
  /** the client gets other bytes than the upstream sends */
  readonly strips: boolean;
  head(status: number, headers: Header[]): void;
  chunk(bytes: Uint8Array): void;
  forClient(bytes: Uint8Array): Uint8Array;
  clientEnd(): Uint8Array;
  end(error?: string, end?: TapEnd): void;
}

/** Counts a call of a model again by its answer, which the client fetches. */
export class LaterTap implements ResponseTap {
  readonly isCounted = false;
  readonly strips = false;
  readonly #gate: Gate;
  #answer?: LaterAnswer;

  constructor(gate: Gate, answer: LaterAnswer) {
    this.#gate = gate;
    this.#answer = answer;
  }

  head(status: number, headers: Header[]): void {
    this.#read((answer) => answer.head(status, headers));
  }

  chunk(bytes: Uint8Array): void {
    this.#read((answer) => answer.chunk(bytes));
  }

  forClient(bytes: Uint8Array): Uint8Array {
    return bytes;
  }

  clientEnd(): Uint8Array {
    return new Uint8Array();
  }

  end(error?: string, { complete = error === undefined }: TapEnd = {}): void {
    const use = complete ? this.#read((answer) => answer.end()) : undefined;
    this.#answer = undefined;
    if (use) this.#gate.correctUse(use);
  }

  /** An unreadable answer leaves the count unreduced. */
  #read<T>(step: (answer: LaterAnswer) => T): T | undefined {
    try {
      return this.#answer && step(this.#answer);
    } catch {
      this.#answer = undefined;
      return undefined;
    }
  }
}
