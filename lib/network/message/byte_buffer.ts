/** Shared empty array: making one costs as much as making a small array. */
export const NO_BYTES = new Uint8Array(0);

/** Joins pieces in a buffer that doubles, so that many tiny pieces cost no more than their bytes. */
export class ByteBuffer {
  count = 0;
  #buffer = NO_BYTES;

  /** Bytes added so far; a view, valid until the next {@linkcode add}. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(0, this.count);
  }

  add(piece: Uint8Array): void {
    if (this.count + piece.length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(this.#buffer.length * 2, this.count + piece.length));
      larger.set(this.bytes);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.count);
    this.count += piece.length;
  }
}
