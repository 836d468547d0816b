import { createHash } from "node:crypto";
import { Blake3 } from "./blake3.ts";

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
