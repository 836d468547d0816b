/** Fields of SSH's messages and keys (RFC 4251 §5): lengths and bytes. */
import { joinBytes } from "../bytes/mod.ts";

const encoder = new TextEncoder();

export function uint32(value: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

export function string(value: Uint8Array | string): Uint8Array<ArrayBuffer> {
  const bytes = typeof value === "string" ? encoder.encode(value) : value;
  const field = new Uint8Array(4 + bytes.length);
  field.set(uint32(bytes.length));
  field.set(bytes, 4);
  return field;
}

/** A positive number. */
export function mpint(value: Uint8Array): Uint8Array<ArrayBuffer> {
  const from = value.findIndex((byte) => byte !== 0);
  const bytes = from < 0 ? new Uint8Array() : value.subarray(from);
  return string(bytes[0] & 0x80 ? joinBytes([Uint8Array.of(0), bytes]) : bytes);
}

/** Reads fields one after another. @throws {RangeError} there are fewer bytes than a length says */
export class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get rest(): number {
    return this.#bytes.length - this.#at;
  }

  take(length: number): Uint8Array<ArrayBuffer> {
    if (length > this.rest) throw new RangeError("a field is longer than the message");
    return this.#bytes.slice(this.#at, this.#at += length);
  }

  uint32(): number {
    const bytes = this.take(4);
    return new DataView(bytes.buffer).getUint32(0);
  }

  string(): Uint8Array<ArrayBuffer> {
    return this.take(this.uint32());
  }

  text(): string {
    return new TextDecoder("utf-8", { fatal: true }).decode(this.string());
  }

  /** A positive number of as many bytes as it needs, at least `length`. */
  mpint(length = 0): Uint8Array<ArrayBuffer> {
    const bytes = this.string();
    if (bytes[0] & 0x80) throw new RangeError("a number is negative");
    const from = bytes.findIndex((byte) => byte !== 0);
    const plain = from < 0 ? new Uint8Array() : bytes.slice(from);
    return plain.length >= length ? plain : joinBytes([new Uint8Array(length - plain.length), plain]);
  }

  requireEnd(): void {
    if (this.rest > 0) throw new RangeError("there are more bytes than fields");
  }
}
