/** No bytes; making an empty array costs as much as making a small one. */
export const NOTHING = new Uint8Array(0);

/** Bytes put together from pieces, in a buffer that doubles: many tiny pieces cost no more than their bytes. */
export class Gathered {
  count = 0;
  #buffer = NOTHING;

  /** What is there; a view, good until the next {@linkcode add}. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(0, this.count);
  }

  add(piece: Uint8Array): void {
    if (this.count + piece.length > this.#buffer.length) {
      const bigger = new Uint8Array(Math.max(this.#buffer.length * 2, this.count + piece.length));
      bigger.set(this.bytes);
      this.#buffer = bigger;
    }
    this.#buffer.set(piece, this.count);
    this.count += piece.length;
  }
}
