/** Keeps a password out of the answers of a server: it is masked in place, so that every length stays. */
import { joinBytes } from "../../base/bytes/mod.ts";

/** `*`, in place of each byte. */
const MASK = 0x2a;

/** Masks one secret in the bodies of messages, which arrive in pieces. */
export class SecretMask {
  readonly #secret: Uint8Array;
  /** the end of the last piece that may begin the secret */
  #held: Uint8Array = new Uint8Array();

  constructor(secret: string) {
    this.#secret = new TextEncoder().encode(secret);
  }

  /**
   * @param isLast the message ends with this piece: nothing is held back
   * @returns the bytes that may pass; the piece itself where nothing is masked or held
   */
  push(piece: Uint8Array, isLast: boolean): Uint8Array {
    const whole = this.#held.length === 0 ? piece : joinBytes([this.#held, piece]);
    const masked = this.#mask(whole);
    const keep = isLast ? 0 : this.#beginning(masked);
    this.#held = keep === 0 ? new Uint8Array() : masked.slice(masked.length - keep);
    return keep === 0 ? masked : masked.subarray(0, masked.length - keep);
  }

  #mask(bytes: Uint8Array): Uint8Array {
    let copy: Uint8Array | undefined;
    for (let at = this.#find(bytes, 0); at >= 0; at = this.#find(bytes, at + this.#secret.length)) {
      copy ??= bytes.slice();
      copy.fill(MASK, at, at + this.#secret.length);
    }
    return copy ?? bytes;
  }

  #find(bytes: Uint8Array, from: number): number {
    const secret = this.#secret;
    for (let at = bytes.indexOf(secret[0], from); at >= 0; at = bytes.indexOf(secret[0], at + 1)) {
      if (at + secret.length > bytes.length) return -1;
      let length = 1;
      while (length < secret.length && bytes[at + length] === secret[length]) length++;
      if (length === secret.length) return at;
    }
    return -1;
  }

  /** Number of bytes at the end that begin the secret. */
  #beginning(bytes: Uint8Array): number {
    const secret = this.#secret;
    for (let count = Math.min(secret.length - 1, bytes.length); count > 0; count--) {
      const from = bytes.length - count;
      let length = 0;
      while (length < count && bytes[from + length] === secret[length]) length++;
      if (length === count) return count;
    }
    return 0;
  }
}
