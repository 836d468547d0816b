/** Buffers request bodies until their decision, within one budget for all requests of a VM. */
import { ClientLost, MessageFault } from "../fault.ts";
import { BUFFERED_BODY_MAX, CAPTURE_MAX } from "../limit.ts";
import { type BodySource, NO_BODY } from "../message/body.ts";
import { ByteBuffer, NO_BYTES } from "../message/byte_buffer.ts";
import type { BufferBudget, Receiving } from "./buffer_budget.ts";
import { ClientBody } from "./client_body.ts";
import type { IncomingRequest } from "./request.ts";

/** The buffered beginning of a body, and the rest to read. */
export interface BufferedBody {
  first: Uint8Array;
  /** `first` is the whole body */
  complete: boolean;
  rest: BodySource;
}

/** Buffers the body of one request. Its bytes count against the budget until {@linkcode BodyBuffer.release}. */
export class BodyBuffer implements Receiving {
  readonly #budget: BufferBudget;
  #reserved = 0;
  /** fails the read that waits */
  #fail?: (fault: ClientLost) => void;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /**
   * Reads as much of a body as its decision needs, and as the budget has room for.
   *
   * @param needed `bytes` that a model call's reader needs
   * @param onEnd called once the whole body has been read
   * @throws {ClientLost} also for a body that arrives slowly while others need its room
   */
  async read({ body }: IncomingRequest, needed: number, onEnd: () => void): Promise<BufferedBody> {
    const whole = body.length !== undefined && body.length <= BUFFERED_BODY_MAX ? body.length : 0;
    const most = Math.min(
      Math.max(CAPTURE_MAX + 1, needed, whole),
      BUFFERED_BODY_MAX,
      body.length ?? Infinity,
    );
    // The beginning is needed in any case, so it is counted even where there is no room.
    this.#reserved = Math.min(most, CAPTURE_MAX + 1);
    this.#budget.bytes += this.#reserved;
    const rest = new ClientBody(body, onEnd);
    const buffer = new ByteBuffer();
    while (buffer.count < most && !body.done && this.#reserve(buffer.count, most)) {
      const piece = await this.#readPiece(rest);
      if (piece === null) break;
      buffer.add(piece);
    }
    this.#budget.complete(this);
    if (body.done) onEnd();
    return { first: buffer.bytes, complete: body.done, rest };
  }

  /** Gives the room back, also that of a body which is being read. */
  release(): void {
    this.#budget.complete(this);
    this.#budget.bytes -= this.#reserved;
    this.#reserved = 0;
  }

  end(): void {
    this.release();
    this.#fail?.(new ClientLost(new MessageFault("its body arrived slowly while others needed its room")));
  }

  /** Makes room for another piece, in steps that double. @returns false without room */
  #reserve(held: number, most: number): boolean {
    if (held < this.#reserved) return true;
    const room = Math.min(held * 2, most) - this.#reserved;
    // While it waits for room itself, it is not the one to make it.
    this.#budget.complete(this);
    if (!this.#budget.take(room)) return false;
    this.#reserved += room;
    return true;
  }

  #readPiece(rest: BodySource): Promise<Uint8Array | null> {
    if (this.#reserved <= CAPTURE_MAX + 1) return rest.read();
    this.#budget.begin(this);
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      rest.read().then(resolve, reject);
    });
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
