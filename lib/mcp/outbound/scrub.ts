/** Takes a secret out of bytes that pass by: a server that echoes its caller's credential does not show it to the guest. */
export class Scrubber {
  readonly #secret: Uint8Array;
  readonly #mask: Uint8Array;
  #held: Uint8Array = new Uint8Array(0);

  /** @param mask what is put in its place */
  constructor(secret: string, mask: string) {
    const encoder = new TextEncoder();
    this.#secret = encoder.encode(secret);
    this.#mask = encoder.encode(mask);
  }

  /** What may be passed on; an end that could be the beginning of the secret waits for what follows it. */
  pass(chunk: Uint8Array): Uint8Array {
    const bytes = this.#held.length ? join([this.#held, chunk]) : chunk;
    const parts: Uint8Array[] = [];
    let from = 0;
    for (let at = this.#find(bytes, 0); at >= 0; at = this.#find(bytes, from)) {
      parts.push(bytes.subarray(from, at), this.#mask);
      from = at + this.#secret.length;
    }
    const keep = this.#openEnd(bytes, from);
    this.#held = bytes.slice(bytes.length - keep);
    const rest = bytes.subarray(from, bytes.length - keep);
    return parts.length ? join([...parts, rest]) : rest;
  }

  /** What was held back, at the end of the bytes. */
  end(): Uint8Array {
    const held = this.#held;
    this.#held = new Uint8Array(0);
    return held;
  }

  #find(bytes: Uint8Array, from: number): number {
    const last = bytes.length - this.#secret.length;
    for (let at = bytes.indexOf(this.#secret[0], from); at >= 0 && at <= last;) {
      if (this.#matches(bytes, at, this.#secret.length)) return at;
      at = bytes.indexOf(this.#secret[0], at + 1);
    }
    return -1;
  }

  /** Length of the longest end of `bytes` that begins the secret. */
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

function join(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
