/**
 * Merkle tree of a log, as Certificate Transparency has it (RFC 9162 §2.1), with BLAKE3: a proof of some 20
 * hashes shows that an earlier state of 100,000 entries is the beginning of a later one.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";

const LEAF = new Uint8Array([0]), NODE = new Uint8Array([1]);

function leafHash(text: string): string {
  return blake3(joinBytes([LEAF, new TextEncoder().encode(text)]));
}

function nodeHash(left: string, right: string): string {
  return blake3(joinBytes([NODE, Uint8Array.fromHex(left), Uint8Array.fromHex(right)]));
}

/** Largest power of two below a size, which is at least 2. */
function splitOf(size: number): number {
  return 2 ** Math.floor(Math.log2(size - 1));
}

/** The tree of all entries so far. Complete subtrees are kept, so that roots and proofs cost few hashes. */
export class Tree {
  /** hashes of complete subtrees with 1, 2, 4, … leaves, from left to right */
  readonly #levels: string[][] = [[]];

  get size(): number {
    return this.#levels[0].length;
  }

  /** Appends a leaf. */
  push(text: string): void {
    let hash = leafHash(text);
    for (let level = 0;; level++) {
      const hashes = this.#levels[level] ??= [];
      hashes.push(hash);
      if (hashes.length % 2 === 1) return;
      hash = nodeHash(hashes.at(-2)!, hash);
    }
  }

  /** Root of the first entries. @param size at most {@linkcode Tree.size} */
  root(size = this.size): string {
    return size === 0 ? blake3("") : this.#range(0, size);
  }

  /**
   * Hashes that prove that the first `size` entries are the beginning of all entries.
   * @param size from 1 on
   */
  proof(size: number): string[] {
    return size === this.size ? [] : this.#proof(size, 0, this.size, true);
  }

  #proof(size: number, from: number, to: number, isWhole: boolean): string[] {
    const length = to - from;
    if (size === length) return isWhole ? [] : [this.#range(from, to)];
    const split = splitOf(length);
    return size <= split
      ? [...this.#proof(size, from, from + split, isWhole), this.#range(from + split, to)]
      : [...this.#proof(size - split, from + split, to, false), this.#range(from, from + split)];
  }

  #range(from: number, to: number): string {
    const length = to - from;
    const level = Math.log2(length);
    if (Number.isInteger(level)) return this.#levels[level][from / length];
    const split = splitOf(length);
    return nodeHash(this.#range(from, from + split), this.#range(from + split, to));
  }
}

interface State {
  size: number;
  root: string;
}

/** True if a proof shows that `before` is the beginning of `after` (RFC 9162 §2.1.4.2). */
export function isConsistent(before: State, after: State, proof: readonly string[]): boolean {
  if (before.size > after.size || before.size < 1) return false;
  if (before.size === after.size) return proof.length === 0 && before.root === after.root;
  const path = Number.isInteger(Math.log2(before.size)) ? [before.root, ...proof] : [...proof];
  let [first, second] = [before.size - 1, after.size - 1];
  const up = () => [first, second] = [Math.floor(first / 2), Math.floor(second / 2)];
  while (first % 2 === 1) up();
  const start = path.shift();
  if (start === undefined) return false;
  let [one, two] = [start, start];
  for (const hash of path) {
    if (second === 0) return false;
    if (first % 2 === 1 || first === second) {
      [one, two] = [nodeHash(hash, one), nodeHash(hash, two)];
      while (first % 2 === 0 && first !== 0) up();
    } else two = nodeHash(two, hash);
    up();
  }
  return second === 0 && one === before.root && two === after.root;
}
