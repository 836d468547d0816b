/** A fixed text to be found in others, in time that is linear whatever a guest makes of both. */

/** Text that is looked for. */
export class Needle {
  readonly text: string;
  #failure?: Uint16Array;
  #repetitive: boolean;

  /** @param ref the credential that it belongs to */
  constructor(text: string, readonly ref: string) {
    this.text = text;
    this.#repetitive = isRepetitive(text);
  }

  /**
   * Where it stands first at or after `from`; -1 when it does not. The engine's own search is very fast, but
   * quadratic for texts like `aaaabaaaa`; those are searched by the table.
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

  /** How many characters at the end of `text`, from `from` on, are a beginning of it and not all of it. */
  heldBy(text: string, from: number): number {
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

  /** Knuth, Morris and Pratt's: how much of it still matches when the next character does not. */
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

/** Whether most of its four-character parts occur more than once in it: no real secret does that. */
function isRepetitive(text: string): boolean {
  const parts = new Set<string>();
  for (let at = 0; at + 4 <= text.length; at++) parts.add(text.slice(at, at + 4));
  return parts.size * 2 < text.length - 3;
}
