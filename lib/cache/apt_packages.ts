/**
 * The digests of an index of Debian packages, by path. An index is 50 MB of text for 60,000 packages: it is
 * unpacked piece by piece, and of each package 40 bytes are held.
 */
import type { Buffer } from "node:buffer";
import { setImmediate } from "node:timers";
import { createGunzip } from "node:zlib";
import { type Digest, digestOf } from "./digest.ts";
import * as limit from "./limit.ts";

/** Fields of an index that count, and the end of a paragraph. */
const FIELD = /^(?:Filename: (\S+)|SHA256: ([0-9a-f]{64})|)$/gm;

const DIGEST_BYTES = 32;
/** Part of a key that is the number of its package; the rest is of a hash. */
const NUMBER_BITS = 18n;
const NUMBERS = 1n << NUMBER_BITS;

export class PackageDigests {
  /** sorted */
  readonly #keys: BigUint64Array;
  readonly #digests: Uint8Array;

  constructor(keys: BigUint64Array, digests: Uint8Array) {
    this.#keys = keys.sort();
    this.#digests = digests;
  }

  /**
   * The digest of a package. Two paths may have one hash: a path that the index lacks then gets the digest of
   * another package, which the file that comes from there does not have.
   */
  find(path: string): Digest | undefined {
    const first = keyOf(path, 0);
    let low = 0;
    for (let high = this.#keys.length; low < high;) {
      const middle = (low + high) >>> 1;
      if (this.#keys[middle] < first) low = middle + 1;
      else high = middle;
    }
    const key = this.#keys[low];
    if (key === undefined || key - first >= NUMBERS) return undefined;
    const at = Number(key - first) * DIGEST_BYTES;
    return digestOf("sha256", this.#digests.subarray(at, at + DIGEST_BYTES).toHex());
  }
}

/** Reads a packed index; `undefined` for one that is damaged or too long. */
export async function readPackages(packed: Uint8Array): Promise<PackageDigests | undefined> {
  const reader = new Reader();
  const unpacked = createGunzip({ chunkSize: limit.CHUNK });
  unpacked.end(packed);
  try {
    for await (const piece of unpacked) {
      if (!reader.add(piece as Buffer)) return undefined;
      // Other requests of the VM go on meanwhile.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return reader.end();
  } catch {
    return undefined;
  }
}

class Reader {
  #bytes = 0;
  #rest = "";
  #path: string | undefined;
  #digest: string | undefined;
  #count = 0;
  #keys = new BigUint64Array(1024);
  #digests = new Uint8Array(1024 * DIGEST_BYTES);

  /** @returns false for an index that is too long */
  add(piece: Buffer): boolean {
    this.#bytes += piece.length;
    const text = this.#rest + piece.toString("latin1");
    const end = text.lastIndexOf("\n");
    this.#rest = text.slice(end + 1);
    if (this.#bytes > limit.INDEX_TEXT_MAX || this.#rest.length > limit.LINE_MAX) return false;
    return end < 0 || this.#addLines(text.slice(0, end));
  }

  /** @returns `undefined` for an index that is too long */
  end(): PackageDigests | undefined {
    if (!this.#addLines(`${this.#rest}\n`)) return undefined;
    const [keys, digests] = [this.#keys, this.#digests];
    return new PackageDigests(keys.slice(0, this.#count), digests.slice(0, this.#count * DIGEST_BYTES));
  }

  /** Adds whole lines, the last one without its end. */
  #addLines(lines: string): boolean {
    for (const [line, path, digest] of lines.matchAll(FIELD)) {
      if (path !== undefined) this.#path = path;
      else if (digest !== undefined) this.#digest = digest;
      if (line !== "") continue;
      if (this.#path !== undefined && this.#digest !== undefined && !this.#put(this.#path, this.#digest)) {
        return false;
      }
      this.#path = this.#digest = undefined;
    }
    return true;
  }

  #put(path: string, digest: string): boolean {
    if (this.#count === limit.PACKAGES_MAX) return false;
    if (this.#count === this.#keys.length) {
      const [keys, digests] = [this.#keys, this.#digests];
      this.#keys = new BigUint64Array(keys.length * 2);
      this.#keys.set(keys);
      this.#digests = new Uint8Array(digests.length * 2);
      this.#digests.set(digests);
    }
    this.#keys[this.#count] = keyOf(path, this.#count);
    this.#digests.subarray(this.#count * DIGEST_BYTES).setFromHex(digest);
    this.#count++;
    return true;
  }
}

/** Key of a package: 46 bits of a hash (FNV-1a, twice), and its number. */
function keyOf(path: string, number: number): bigint {
  let one = 0x811c9dc5, two = 0x050c5d1f;
  for (let at = 0; at < path.length; at++) {
    const code = path.charCodeAt(at);
    one = Math.imul(one ^ code, 0x01000193);
    two = Math.imul(two ^ code, 0x5bd1e995);
  }
  const hash = BigInt(one >>> 0) << 14n | BigInt((two ^ two >>> 15) & 0x3fff);
  return hash << NUMBER_BITS | BigInt(number);
}
