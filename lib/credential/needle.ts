/** Search for a fixed text in linear time, even when a guest chooses both texts. */

/** Text to search for. */
export class Needle {
  readonly text: string;
  #failure?: Uint16Array;
  #repetitive: boolean;

  /** @param ref ref of the credential the text belongs to */
  constructor(text: string, readonly ref: string) {
    this.text = text;
    this.#repetitive = isRepetitive(text);
  }

  /**
   * Index of the first occurrence at or after `from`; -1 without one. The engine's own search is very fast,
   * but quadratic for texts like `aaaabaaaa`; those use the failure table.
   */
  indexIn(text: string, from: number): number {
    if (!this.#repetitive) return text.indexOf(this.text, from);
    const needle = this.text;
    const failure = this.#table();
    let matched = 0;
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      while (matched > 0 && needle.charCodeAt(matched) !== code) matched = failure[matched - 1];
      if (needle.charCodeAt(matched) === code) matched++;
      if (matched === needle.length) return at - matched + 1;
    }
    return -1;
  }

  /** Length of the longest proper prefix of the needle at the end of `text`, not before `from`. */
  partialLength(text: string, from: number): number {
    const needle = this.text;
    const start = Math.max(from, text.length - needle.length + 1);
    if (text.indexOf(needle[0], start) < 0) return 0;
    const failure = this.#table();
    let matched = 0;
    for (let at = start; at < text.length; at++) {
      const code = text.charCodeAt(at);
      while (matched > 0 && needle.charCodeAt(matched) !== code) matched = failure[matched - 1];
      if (needle.charCodeAt(matched) === code) matched++;
    }
    return matched;
  }

  /** Failure table of Knuth, Morris and Pratt: length of the prefix that still matches after a mismatch. */
  #table(): Uint16Array {
    if (this.#failure) return this.#failure;
    const { text } = this;
    const table = new Uint16Array(text.length);
    for (let at = 1, matched = 0; at < text.length; at++) {
      while (matched > 0 && text.charCodeAt(at) !== text.charCodeAt(matched)) matched = table[matched - 1];
      if (text.charCodeAt(at) === text.charCodeAt(matched)) matched++;
      table[at] = matched;
    }
    return this.#failure = table;
  }
}

/** Tests whether most four-character parts of a text repeat in it; those of a real secret do not. */
function isRepetitive(text: string): boolean {
  const parts = new Set<string>();
  for (let at = 0; at + 4 <= text.length; at++) parts.add(text.slice(at, at + 4));
  return parts.size * 2 < text.length - 3;
}
