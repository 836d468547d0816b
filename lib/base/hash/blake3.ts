import { Blake3Hasher } from "@napi-rs/blake-hash";
import { Buffer } from "node:buffer";

/** Size of one read while hashing a file, in `bytes` (docs/design/contracts/14-limits.md §14). */
export const HASH_CHUNK = 256 * 1024;

/** BLAKE3 as 64 lower-case hex characters. */
export function blake3(data: Uint8Array | string): string {
  const hasher = new Blake3Hasher();
  hasher.update(typeof data === "string" ? data : asBuffer(data));
  return hasher.digest("hex");
}

/** Hash and size of one file. */
export interface FileHash {
  /** BLAKE3, 64 hex characters */
  hash: string;
  /** bytes */
  size: number;
}

/**
 * BLAKE3 of a file in chunks of {@linkcode HASH_CHUNK}.
 *
 * @param onBytes callback with the size of each chunk in `bytes`, for a progress bar
 */
export async function blake3File(path: string, onBytes?: (bytes: number) => void): Promise<FileHash> {
  using file = await Deno.open(path);
  const hasher = new Blake3Hasher();
  const chunk = new Uint8Array(HASH_CHUNK);
  let size = 0;
  for (let read = await file.read(chunk); read !== null; read = await file.read(chunk)) {
    hasher.update(asBuffer(chunk.subarray(0, read)));
    size += read;
    onBytes?.(read);
  }
  return { hash: hasher.digest("hex"), size };
}

/** BLAKE3 of bytes that come in parts. */
export class Blake3 {
  readonly #hasher = new Blake3Hasher();

  update(bytes: Uint8Array): void {
    this.#hasher.update(asBuffer(bytes));
  }

  /** 64 lower-case hex characters */
  digest(): string {
    return this.#hasher.digest("hex");
  }
}

/** Wraps bytes in the Buffer required by the library, without a copy. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
