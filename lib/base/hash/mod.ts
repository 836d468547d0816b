/** BLAKE3 and SHA-256 of bytes and files. Knows nothing of what they are for. */
import { Buffer } from "node:buffer";
import { Blake3Hasher } from "@napi-rs/blake-hash";

/** Bytes read at a time when a file is hashed (spec.md, "Limits": 256 KB). */
export const HASH_CHUNK = 256 * 1024;

/** 64 lower-case hex characters. */
export function blake3(data: Uint8Array | string): string {
  const hasher = new Blake3Hasher();
  hasher.update(typeof data === "string" ? data : view(data));
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
 * @param onBytes called with the bytes of each chunk, for a progress bar
 */
export async function blake3File(path: string, onBytes?: (bytes: number) => void): Promise<FileHash> {
  using file = await Deno.open(path);
  const hasher = new Blake3Hasher();
  const chunk = new Uint8Array(HASH_CHUNK);
  let size = 0;
  for (let read = await file.read(chunk); read !== null; read = await file.read(chunk)) {
    hasher.update(view(chunk.subarray(0, read)));
    size += read;
    onBytes?.(read);
  }
  return { hash: hasher.digest("hex"), size };
}

/** The same bytes as the Buffer that the library asks for; nothing is copied. */
function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
