import { ClientLost } from "../fault.ts";
import type { BodySource } from "../message/body.ts";
import type { Header } from "../message/header.ts";

/** Body of a client's request: its errors become {@linkcode ClientLost}, apart from those of the upstream. */
export class ClientBody implements BodySource {
  readonly #body: BodySource;
  readonly #onEnd: () => void;
  #ended = false;

  /** @param onEnd called once, when the whole body has been read */
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
    // `onEnd` starts reading the connection, which would overwrite the last piece: it waits until that piece is used.
    if (piece === null && !this.#ended) {
      this.#ended = true;
      this.#onEnd();
    }
    return piece;
  }
}
