import { joinBytes } from "../bytes.ts";

/**
 * Replaces a secret in a stream of bytes: a server that echoes its caller's credential does not reveal it to the
 * guest.
 */
export class Scrubber {
  readonly #secret: Uint8Array;
  readonly #mask: Uint8Array<ArrayBuffer>;
  /** end of the bytes seen so far that may begin the secret */
  #buffered = new Uint8Array(0);

  /** @param mask replacement text */
  constructor(secret: string, mask: string) {
    const encoder = new TextEncoder();
    this.#secret = encoder.encode(secret);
    this.#mask = encoder.encode(mask);
  }

  /** The bytes that may be passed on; an end that may begin the secret is buffered until the next chunk. */
  pass(chunk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffered.length ? joinBytes([this.#buffered, chunk]) : chunk;
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let from = 0;
    for (let at = this.#find(bytes, 0); at >= 0; at = this.#find(bytes, from)) {
      parts.push(bytes.subarray(from, at), this.#mask);
      from = at + this.#secret.length;
    }
    const keep = this.#openEnd(bytes, from);
    this.#buffered = bytes.slice(bytes.length - keep);
    const rest = bytes.subarray(from, bytes.length - keep);
    return parts.length ? joinBytes([...parts, rest]) : rest;
  }

  /** The buffered bytes at the end of the stream. */
  end(): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffered;
    this.#buffered = new Uint8Array(0);
    return bytes;
  }

  #find(bytes: Uint8Array, from: number): number {
    const last = bytes.length - this.#secret.length;
    for (let at = bytes.indexOf(this.#secret[0], from); at >= 0 && at <= last;) {
      if (this.#matches(bytes, at, this.#secret.length)) return at;
      at = bytes.indexOf(this.#secret[0], at + 1);
    }
    return -1;
  }

  /** Length of the longest suffix of `bytes` that begins the secret. */
  #openEnd(bytes: Uint8Array, from: number): number {
    for (let length = Math.min(this.#secret.length - 1, bytes.length - from); length > 0; length--) {
      if (this.#matches(bytes, bytes.length - length, length)) return length;
    }
    return 0;
  }

  #matches(bytes: Uint8Array, at: number, length: number): boolean {
    for (let i = 0; i < length; i++) if (bytes[at + i] !== this.#secret[i]) return false;
    return true;
  }
}
