/** Buffers request bodies until their decision, within one budget for all requests of a VM. */
import { ClientLost, MessageFault } from "../fault.ts";
import { BUFFERED_BODY_MAX, BUFFERED_TOTAL_MAX, CAPTURE_MAX, TIMEOUTS } from "../limit.ts";
import { type BodySource, NO_BODY } from "../message/body.ts";
import { ByteBuffer, NO_BYTES } from "../message/bytes.ts";
import type { IncomingRequest } from "./request.ts";
import type { Passage } from "../../policy/mod.ts";
import type { Header } from "../message/header.ts";

/** The buffered beginning of a body, and the rest to read. */
export interface BufferedBody {
  first: Uint8Array;
  /** `first` is the whole body */
  complete: boolean;
  rest: BodySource;
}

/**
 * Buffers the body of one request. Its bytes count against the budget until {@linkcode BodyBuffer.release}.
 */
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
   * @param isEnough true for bytes that the decision can be made on: the client may wait for
   * an answer before it sends more
   * @throws {ClientLost} also for a body that arrives slowly while others need its room
   */
  async read(
    { body }: IncomingRequest,
    needed: number,
    onEnd: () => void,
    isEnough: (bytes: Uint8Array) => boolean = () => false,
  ): Promise<BufferedBody> {
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
    while (
      buffer.count < most && !body.done && !isEnough(buffer.bytes) && this.#reserve(buffer.count, most)
    ) {
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

/** A body or message that is being received and held. */
export interface Receiving {
  /** Gives its room back and receives no more. */
  end(): void;
}

/**
 * Buffered `bytes` of all requests and messages of a VM. Holders that do not send on yield their room: when
 * it is needed, transfers that have been arriving for longer than `slowMs` end, the oldest first.
 */
export class BufferBudget {
  /** taken so far; what holds it gives it back by subtracting */
  bytes = 0;
  /** with the unix `ms` of its beginning, oldest first */
  readonly #receiving = new Map<Receiving, number>();

  constructor(readonly slowMs: number = TIMEOUTS.buffer, readonly max = BUFFERED_TOTAL_MAX) {}

  /** Takes room. @returns false without room */
  take(bytes: number): boolean {
    if (this.bytes + bytes > this.max) this.#makeRoom(bytes);
    if (this.bytes + bytes > this.max) return false;
    this.bytes += bytes;
    return true;
  }

  /**
   * Takes room for what a request can do without, for as long as it likes: a half stays for bodies and
   * messages, and none of them ends for it. @returns false without room
   */
  takeSpare(bytes: number): boolean {
    if (this.bytes + bytes > this.max / 2) return false;
    this.bytes += bytes;
    return true;
  }

  /** Notes a body or message that is not complete yet; a second time changes nothing. */
  begin(receiving: Receiving): void {
    if (!this.#receiving.has(receiving)) this.#receiving.set(receiving, Date.now());
  }

  /** Notes the end of a body or message: from now on it keeps its room. */
  complete(receiving: Receiving): void {
    this.#receiving.delete(receiving);
  }

  #makeRoom(bytes: number): void {
    for (const [receiving, since] of this.#receiving) {
      if (Date.now() - since < this.slowMs || this.bytes + bytes <= this.max) return;
      this.#receiving.delete(receiving);
      receiving.end();
    }
  }
}

/** A body that wraps another and adds to its reads. */
abstract class WrappedBody implements BodySource {
  protected readonly body: BodySource;

  constructor(body: BodySource) {
    this.body = body;
  }

  get length(): number | undefined {
    return this.body.length;
  }

  get trailers(): readonly Header[] {
    return this.body.trailers;
  }

  get done(): boolean {
    return this.body.done;
  }

  get ready(): boolean {
    return this.body.ready;
  }

  abstract read(): Promise<Uint8Array | null>;
}

/**
 * Body of a client's request: its errors become {@linkcode ClientLost}, distinct from the upstream's errors.
 */
export class ClientBody extends WrappedBody {
  readonly #onEnd: () => void;
  #ended = false;

  /** @param onEnd called once, when the whole body has been read */
  constructor(body: BodySource, onEnd: () => void) {
    super(body);
    this.#onEnd = onEnd;
  }

  async read(): Promise<Uint8Array | null> {
    let piece: Uint8Array | null;
    try {
      piece = await this.body.read();
    } catch (cause) {
      throw new ClientLost(cause);
    }
    // `onEnd` starts reading the connection, which would overwrite the last piece: it
    // waits until that piece is used.
    if (piece === null && !this.#ended) {
      this.#ended = true;
      this.#onEnd();
    }
    return piece;
  }
}

/** Body whose length the decision did not know: budgets count its bytes before they are sent. */
export class CountedBody extends WrappedBody {
  readonly #passage: Passage;
  readonly #isKnown: boolean;
  #bytes = 0;

  /** @param isKnown its length was counted before */
  constructor(body: BodySource, passage: Passage, isKnown: boolean) {
    super(body);
    this.#passage = passage;
    this.#isKnown = isKnown;
  }

  /** @throws {SbxError} `policy.blocked`: a budget of bytes is used up, or a finding holds the rest back */
  async read(): Promise<Uint8Array | null> {
    const piece = await this.body.read();
    if (piece !== null) {
      if (this.#isKnown) this.#passage.requireOpen();
      else this.#passage.countSent(this.#bytes += piece.length);
    }
    return piece;
  }
}
