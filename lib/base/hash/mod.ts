/** Hashes of bytes and files. */
import { Blake3Hasher } from "@napi-rs/blake-hash";
import { Buffer } from "node:buffer";
import { createHash, createPublicKey } from "node:crypto";
import { stat } from "node:fs/promises";

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

/** SHA-256, BLAKE3 and size of bytes as they arrive. */
export class Digest {
  readonly #blake3 = new Blake3();
  readonly #sha256;
  /** `bytes` so far */
  size = 0;

  /** @param options `sha256: false` saves the time of an unused hash */
  constructor({ sha256 = true } = {}) {
    this.#sha256 = sha256 ? createHash("sha256") : undefined;
  }

  update(bytes: Uint8Array): void {
    this.#blake3.update(bytes);
    this.#sha256?.update(bytes);
    this.size += bytes.length;
  }

  /** Ends the digest. @returns 64 hex characters each */
  digest(): { blake3: string; sha256?: string } {
    const sha256 = this.#sha256?.digest("hex");
    return { blake3: this.#blake3.digest(), ...(sha256 !== undefined && { sha256 }) };
  }
}

/**
 * Identity of a file's content without reading it: any write changes it, also one that puts the times back,
 * since the time of change is the kernel's own.
 *
 * @throws {Error} with `code` "ENOENT" where there is no file
 */
export async function fileStamp(path: string): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
  return [dev, ino, size, mtimeNs, ctimeNs].join(":");
}

/**
 * Fingerprint of a public key in PEM: SHA-256 of its SPKI, as
 * `openssl pkey -pubin -outform DER | sha256sum` has it.
 */
export function keyFingerprint(pem: string): string {
  const der = createPublicKey(pem).export({ type: "spki", format: "der" });
  return `sha256:${createHash("sha256").update(der).digest("hex")}`;
}
