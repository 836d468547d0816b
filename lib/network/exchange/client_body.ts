import type { Passage } from "../../policy/mod.ts";
import { ClientLost } from "../fault.ts";
import type { BodySource } from "../message/body.ts";
import type { Header } from "../message/header.ts";

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
    // `onEnd` starts reading the connection, which would overwrite the last piece: it waits until that piece is used.
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
  #bytes = 0;

  constructor(body: BodySource, passage: Passage) {
    super(body);
    this.#passage = passage;
  }

  /** @throws {SbxError} `policy.blocked`: a budget of bytes is used up */
  async read(): Promise<Uint8Array | null> {
    const piece = await this.body.read();
    if (piece !== null) this.#passage.countSent(this.#bytes += piece.length);
    return piece;
  }
}
