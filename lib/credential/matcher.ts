/**
 * Search for many patterns at once (Aho and Corasick), in time linear in the text, even when a guest chooses text and
 * patterns.
 */

/** Codes below this one; text and patterns hold no others. */
const CODES = 128;

/** Finds patterns in codes. */
export class Matcher {
  readonly #root = new Int32Array(CODES);
  // One node for each beginning of a pattern; node 0 is the empty beginning.
  readonly #code: number[] = [0];
  readonly #child: number[] = [0];
  readonly #sibling: number[] = [0];
  readonly #depth: number[] = [0];
  /** node of the longest other beginning that the text of a node ends with */
  readonly #fail: number[] = [0];
  /** node of the longest pattern that the text of a node ends with, or 0 */
  readonly #hit: number[] = [0];
  /** index of the pattern that ends at a node */
  readonly #pattern: number[] = [-1];

  /** @param patterns codes below 128, none empty */
  constructor(patterns: readonly Uint8Array[]) {
    patterns.forEach((pattern, index) => this.#add(pattern, index));
    this.#link();
  }

  /**
   * Reports the longest pattern that ends at each code.
   *
   * @param length number of codes
   * @param stable number of codes for the result
   * @returns length of the longest incomplete beginning of a pattern at the end of the first `stable` codes
   */
  scan(
    codes: Uint8Array,
    length: number,
    stable: number,
    report: (pattern: number, start: number, end: number) => void,
  ): number {
    let depth = 0;
    let node = 0;
    for (let at = 0; at < length; at++) {
      node = node === 0 ? this.#root[codes[at]] : this.#step(node, codes[at]);
      if (at + 1 === stable) depth = this.#openDepth(node);
      if (node === 0) continue;
      const hit = this.#hit[node];
      if (hit !== 0) report(this.#pattern[hit], at + 1 - this.#depth[hit], at + 1);
    }
    return depth;
  }

  /** A pattern that is complete, and begins no other, waits for nothing. */
  #openDepth(node: number): number {
    while (node !== 0 && this.#child[node] === 0) node = this.#fail[node];
    return this.#depth[node];
  }

  #step(node: number, code: number): number {
    for (let from = node; from !== 0; from = this.#fail[from]) {
      const child = this.#childOf(from, code);
      if (child !== 0) return child;
    }
    return this.#root[code];
  }

  #childOf(node: number, code: number): number {
    let child = this.#child[node];
    while (child !== 0 && this.#code[child] !== code) child = this.#sibling[child];
    return child;
  }

  #add(pattern: Uint8Array, index: number): void {
    let node = 0;
    for (const code of pattern) {
      let child = node === 0 ? this.#root[code] : this.#childOf(node, code);
      if (child === 0) {
        child = this.#code.length;
        this.#code.push(code);
        this.#child.push(0);
        this.#sibling.push(this.#child[node]);
        this.#depth.push(this.#depth[node] + 1);
        this.#fail.push(0);
        this.#hit.push(0);
        this.#pattern.push(-1);
        this.#child[node] = child;
        if (node === 0) this.#root[code] = child;
      }
      node = child;
    }
    if (this.#pattern[node] < 0) this.#pattern[node] = index;
  }

  /** Sets the links of every node, the shorter beginnings first. */
  #link(): void {
    const queue = [0];
    for (let at = 0; at < queue.length; at++) {
      const node = queue[at];
      for (let child = this.#child[node]; child !== 0; child = this.#sibling[child]) {
        const fail = node === 0 ? 0 : this.#step(this.#fail[node], this.#code[child]);
        this.#fail[child] = fail;
        this.#hit[child] = this.#pattern[child] >= 0 ? child : this.#hit[fail];
        queue.push(child);
      }
    }
  }
}
