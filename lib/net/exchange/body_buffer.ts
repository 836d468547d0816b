/** Buffers request bodies until their decision, within one budget for all requests of a VM. */
import { BUFFERED_BODY_MAX, BUFFERED_TOTAL_MAX, CAPTURE_MAX } from "../limit.ts";
import { type BodySource, NO_BODY, readBeginning } from "../message/body.ts";
import { NO_BYTES } from "../message/byte_buffer.ts";
import { ClientBody } from "./client_body.ts";
import type { IncomingRequest } from "./request.ts";

/** Buffered `bytes` of all requests of a VM. */
export interface BufferBudget {
  bytes: number;
}

/** The buffered beginning of a body, and the rest to read. */
export interface BufferedBody {
  first: Uint8Array;
  /** `first` is the whole body */
  complete: boolean;
  rest: BodySource;
}

/** Buffers the body of one request. Its bytes count against the budget until {@linkcode BodyBuffer.release}. */
export class BodyBuffer {
  readonly #budget: BufferBudget;
  #reserved = 0;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /**
   * Reads as much of a body as its decision needs.
   *
   * @param needed `bytes` that a model call's reader needs
   * @param onEnd called once the whole body has been read
   * @throws {ClientLost}
   */
  async read({ body }: IncomingRequest, needed: number, onEnd: () => void): Promise<BufferedBody> {
    const whole = body.length !== undefined && body.length <= BUFFERED_BODY_MAX ? body.length : 0;
    const most = Math.min(Math.max(CAPTURE_MAX + 1, needed, whole), BUFFERED_BODY_MAX);
    const fits = this.#budget.bytes + most <= BUFFERED_TOTAL_MAX;
    this.#reserved = Math.min(fits ? most : CAPTURE_MAX + 1, body.length ?? Infinity);
    this.#budget.bytes += this.#reserved;
    const rest = new ClientBody(body, onEnd);
    const first = await readBeginning(rest, this.#reserved);
    if (body.done) onEnd();
    return { first, complete: body.done, rest };
  }

  release(): void {
    this.#budget.bytes -= this.#reserved;
    this.#reserved = 0;
  }
}

/** Body of a request that has none. */
export function emptyBody({ body }: IncomingRequest): BufferedBody {
  return { first: NO_BYTES, complete: true, rest: body };
}

/** Body that replaces the one received. */
export function replacementBody(bytes: Uint8Array): BufferedBody {
  return { first: bytes, complete: true, rest: NO_BODY };
}
