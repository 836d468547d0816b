/** Content of files: read once, hashed, and written elsewhere on the way; holes stay holes. */
import { Blake3Hasher } from "@napi-rs/blake-hash";
import { Buffer } from "node:buffer";
import type { Descriptor } from "../../../ffi/host/handle.ts";
import type { Pace } from "./pace.ts";

/** Size of one read, in `bytes`; a file of at most this size is one buffer. */
export const CHUNK = 256 * 1024;
/** Size of the pieces of a file with holes that count as data, in `bytes`. */
const PIECE = 64 * 1024;
/** Begins the hash of a file with holes: its data by offset, independent of the file system's holes. */
const SPARSE_DOMAIN = "sbx.sparse.v1\0";

/** How the content of a file is hashed, and so stored. */
export type Form = "plain" | "sparse";

/**
 * Hashes a file, and copies it to `to` on the way, if given.
 *
 * @param size `bytes` that the file had; a longer one is read no further
 * @returns name of its object: BLAKE3 as hex, and `s` for a file with holes
 */
export async function digest(
  from: Descriptor,
  { form, size, to, pace }: { form: Form; size: number; to?: Descriptor; pace: Pace },
): Promise<string> {
  if (form === "sparse") return `${await digestSparse(from, size, to, pace)}s`;
  const hasher = new Blake3Hasher();
  const buffer = new Uint8Array(Math.min(CHUNK, Math.max(1, size)));
  for (let at = 0; at < size;) {
    const count = from.read(size - at < buffer.length ? buffer.subarray(0, size - at) : buffer, at);
    if (count === 0) break;
    const data = buffer.subarray(0, count);
    hasher.update(asBuffer(data));
    to?.write(data, at);
    at += count;
    await pace.tick();
  }
  return hasher.digest("hex");
}

async function digestSparse(from: Descriptor, size: number, to: Descriptor | undefined, pace: Pace) {
  const hasher = new Blake3Hasher();
  hasher.update(SPARSE_DOMAIN);
  hasher.update(number(size));
  const buffer = new Uint8Array(PIECE);
  let next = 0;
  for (
    let data = from.nextData(0);
    data && data.start < size;
    data = next < size ? from.nextData(next) : undefined
  ) {
    for (
      next = Math.max(next, data.start - data.start % PIECE);
      next < Math.min(data.end, size);
      next += PIECE
    ) {
      const piece = buffer.subarray(0, Math.min(PIECE, size - next));
      // A file that became shorter meanwhile has zeros there.
      piece.fill(0, from.read(piece, next));
      if (!isZero(piece)) {
        hasher.update(number(next));
        hasher.update(asBuffer(piece));
        to?.write(piece, next);
      }
      await pace.tick();
    }
  }
  to?.truncate(size);
  return hasher.digest("hex");
}

/** BLAKE3 of bytes in memory. */
export function hashOf(bytes: Uint8Array): string {
  const hasher = new Blake3Hasher();
  hasher.update(asBuffer(bytes));
  return hasher.digest("hex");
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function isZero(bytes: Uint8Array<ArrayBuffer>): boolean {
  const whole = bytes.length - bytes.length % 8;
  return new BigUint64Array(bytes.buffer, bytes.byteOffset, whole / 8).every((word) => word === 0n) &&
    bytes.subarray(whole).every((byte) => byte === 0);
}

/** Wraps bytes in the Buffer required by the library, without a copy. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
