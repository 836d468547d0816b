import type { BodySource } from "../message/body.ts";
import { ClientLost } from "../fault.ts";
import type { Header } from "../message/header.ts";

/** A client's body: what breaks it is the client's doing, and not the upstream's. */
export class ClientBody implements BodySource {
  readonly #body: BodySource;
  readonly #onEnd: () => void;
  #ended = false;

  /** @param onEnd called once, when nothing of it is left to read */
  constructor(body: BodySource, onEnd: () => void) {
    this.#body = body;
    this.#onEnd = onEnd;
  }

  get length(): number | undefined {
    return this.#body.length;
  }

  get trailers(): readonly Header[] {
    return this.#body.trailers;
  }

  get done(): boolean {
    return this.#body.done;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  async read(): Promise<Uint8Array | null> {
    let piece: Uint8Array | null;
    try {
      piece = await this.#body.read();
    } catch (cause) {
      throw new ClientLost(cause);
    }
    // A piece is good until the next read, and watching a client reads: it waits for the last piece to be used.
    if (piece === null && !this.#ended) {
      this.#ended = true;
      this.#onEnd();
    }
    return piece;
  }
}
