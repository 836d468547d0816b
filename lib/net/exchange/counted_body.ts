import type { Passage } from "../../policy/mod.ts";
import type { BodySource } from "../message/body.ts";
import type { Header } from "../message/header.ts";

/** Body whose length the decision did not know: budgets count its bytes before they are sent. */
export class CountedBody implements BodySource {
  readonly #body: BodySource;
  readonly #passage: Passage;
  #bytes = 0;

  constructor(body: BodySource, passage: Passage) {
    this.#body = body;
    this.#passage = passage;
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

  /** @throws {SbxError} `policy.blocked`: a budget of bytes is used up */
  async read(): Promise<Uint8Array | null> {
    const piece = await this.#body.read();
    if (piece !== null) this.#passage.countSent(this.#bytes += piece.length);
    return piece;
  }
}
