/** Finds known secrets, texts shaped like tokens, and refs in text. */
import { fold, lower } from "./fold.ts";
import { foldedForms, plainForms, SECRET_MIN } from "./form.ts";
import { plainRef, REF_IN_TEXT, REF_PREFIX } from "./ref.ts";
import { TOKEN_BEGIN, TOKEN_MAX, TokenShapes } from "./token.ts";

/** Part of a text that must be replaced. */
export interface SecretMatch {
  start: number;
  end: number;
  /** `secret`: a form of a known one. `token`: text shaped like one. `ref`: a reference */
  kind: "secret" | "token" | "ref";
  text: string;
  /** ref of a known secret, or the reference itself without percent-encoding */
  ref?: string;
  /** coding of a known secret; absent for one that is there as it is */
  coding?: string;
}

const COLON = "(?::|%3[Aa])";
/** `c`, `cr` … `credential%3` … `credential:blake3:`: prefixes of a ref cut before its digits. */
const REF_PARTS = Array.from(REF_PREFIX, (_, at) => {
  const part = REF_PREFIX.slice(0, at + 1).replaceAll(":", COLON);
  return REF_PREFIX[at + 1] === ":" ? `${part}(?:%3?)?` : part;
});

/** Patterns of refs, and of tokens. */
interface ShapePatterns {
  /** beginnings of refs, and of tokens whose prefix has no separator */
  begins: RegExp;
  /** separators in the prefixes of the others, with what stands before as a group */
  separators: RegExp;
  /** a whole one, where it begins */
  whole: RegExp;
  /** end of a text that may be the beginning of one */
  part: RegExp;
}

/** Characters that follow the first separator of every token. */
const AFTER_SEPARATOR = "(?=[\\w+/=-]{14})";

/**
 * A prefix with a separator is found by that: an engine looks for a few characters many times as
 * fast as for dozens of prefixes.
 */
function patternsOf({ prefixes, inText, part }: TokenShapes): ShapePatterns {
  const separated = prefixes.filter((prefix) => /^[A-Za-z0-9]+[-_]/.test(prefix));
  const heads = [...new Set(separated.map((prefix) => prefix.split(/[-_]/)[0]))];
  const others = prefixes.filter((prefix) => !separated.includes(prefix)).map(RegExp.escape);
  return {
    begins: new RegExp(`${TOKEN_BEGIN}(?:${others.join("|")})|credential`, "g"),
    separators: new RegExp(`[-_]${AFTER_SEPARATOR}(?<=${TOKEN_BEGIN}(${heads.join("|")})[-_])`, "g"),
    whole: new RegExp(`${REF_IN_TEXT}|${inText}`, "y"),
    part: new RegExp(`(?:${REF_PARTS.join("|")}|credential${COLON}blake3${COLON}[0-9a-f]{0,63}|${part})$`),
  };
}

/** Patterns of the shapes in use. */
const PATTERNS = new WeakMap<TokenShapes, ShapePatterns>();

/** Finds tokens and refs in one text, in order. */
class ShapeSearch {
  readonly #text: string;
  readonly #patterns: ShapePatterns;
  /** places where the next one may begin; the length of the text without one */
  #plain = -1;
  #separated = -1;
  /** the last separator that was looked at, and one more */
  #after = 0;
  #from: number;

  constructor(text: string, from: number, patterns: ShapePatterns) {
    this.#text = text;
    this.#patterns = patterns;
    this.#from = from;
  }

  next(): RegExpExecArray | undefined {
    const { whole } = this.#patterns;
    for (let at = this.#nextPlace(); at < this.#text.length; at = this.#nextPlace()) {
      whole.lastIndex = at;
      const match = whole.exec(this.#text);
      this.#from = match ? at + match[0].length : at + 1;
      if (match) return match;
    }
  }

  #nextPlace(): number {
    const { begins, separators } = this.#patterns;
    if (this.#plain < this.#from) {
      begins.lastIndex = this.#from;
      this.#plain = begins.exec(this.#text)?.index ?? this.#text.length;
    }
    while (this.#separated < this.#from) {
      separators.lastIndex = Math.max(this.#from, this.#after);
      const match = separators.exec(this.#text);
      this.#separated = match ? match.index - match[1].length : this.#text.length;
      this.#after = (match?.index ?? this.#text.length) + 1;
    }
    return Math.min(this.#plain, this.#separated);
  }
}

/** Characters that a token or a ref may have. */
const INSIDE = Uint8Array.from(
  { length: 128 },
  (_, code) => /[\w+/=.:%-]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/** Start of the characters at the end of a text, from an offset on, that may belong to one token or ref. */
function startOfWord(text: string, from: number): number {
  let at = text.length;
  while (at > from && INSIDE[text.charCodeAt(at - 1)] === 1) at--;
  return at;
}

/** Longest match of {@linkcode ShapePatterns.part}: a token, or a ref with its colons encoded. */
const PART_MAX = TOKEN_MAX + 16;

/** Matches in a text, and the beginning of one at its end. */
export interface Scan {
  /** in order, without overlaps */
  matches: SecretMatch[];
  /** start of a possible partial match at the end of the text; without one, the length of the text */
  partial: number;
  /** beginnings of known secrets at the end of the text: plain, and folded */
  begun: Beginning[];
}

/** Beginning of a known secret at the end of a text. */
export interface Beginning {
  start: number;
  /** characters of the secret, without escapes and white space; 0 for text that only may become one */
  depth: number;
}

/** Finds known secrets, tokens and refs. A change of the known secrets needs a new finder. */
export class Finder {
  readonly #shapes: ShapePatterns | undefined;
  readonly #plain: Patterns;
  readonly #folded: Patterns;
  /** fewest characters of a text with a match */
  readonly least: number;

  /**
   * @param secrets ref → secret
   * @param options.shapes of the tokens that are found, and refs; false: neither
   */
  constructor(
    secrets: Iterable<[ref: string, secret: string]>,
    { shapes = TokenShapes.BUILT_IN }: { shapes?: TokenShapes | false } = {},
  ) {
    this.#shapes = shapes ? PATTERNS.getOrInsertComputed(shapes, patternsOf) : undefined;
    const all = [...secrets];
    this.#plain = new Patterns(
      all.flatMap(([ref, secret]) =>
        plainForms(secret).map(([form, coding]) => ({
          ref,
          coding,
          codes: lower(form).slice(0, form.length),
        }))
      ),
    );
    this.#folded = new Patterns(
      all.flatMap(([ref, secret]) =>
        foldedForms(secret).map(([form, coding]) => {
          const { codes, length } = fold(form);
          return { ref, coding, codes: codes.slice(0, length) };
        })
      ).filter(({ codes }) => codes.length >= SECRET_MIN),
    );
    // Normal forms are never longer than their text.
    this.least = Math.min(shapes ? shapes.least : Infinity, this.#plain.least, this.#folded.least);
  }

  /** True when it searches for known secrets: only they are found across line breaks. */
  get knowsSecrets(): boolean {
    return this.#plain.size > 0;
  }

  /** Matches in a whole text. */
  find(text: string): SecretMatch[] {
    return this.scan(text).matches;
  }

  /** True when a whole text has a match. */
  holds(text: string): boolean {
    if (this.#shapes) {
      if (new ShapeSearch(text, 0, this.#shapes).next()) return true;
    }
    if (this.#plain.size === 0) return false;
    const matches: SecretMatch[] = [];
    this.#scanSecrets(text, 0, matches);
    return matches.length > 0;
  }

  /**
   * Finds matches in `text` at or after `from`. Overlapping matches become one, to be replaced
   * by the replacement of the first.
   */
  scan(text: string, from = 0): Scan {
    const matches: SecretMatch[] = [];
    let partial = this.#shapes ? scanShapes(text, from, matches, this.#shapes) : text.length;
    const begun = this.#plain.size > 0 ? this.#scanSecrets(text, from, matches) : [];
    for (const { start } of begun) partial = Math.min(partial, start);
    return { matches: matches.length > 1 ? mergeOverlaps(matches) : matches, partial, begun };
  }

  #scanSecrets(text: string, from: number, matches: SecretMatch[]): Beginning[] {
    const add = ({ ref, coding }: Pattern, start: number, end: number) => {
      const last = matches.at(-1);
      // One match for a repetitive text, not one for each of its characters.
      if (last?.kind === "secret" && last.ref === ref && last.start <= start && start < last.end) {
        last.end = Math.max(last.end, end);
      } else matches.push({ start, end, kind: "secret", text: "", ref, ...(coding && { coding }) });
    };
    const length = text.length - from;
    const depth = this.#plain.scan(
      lower(text, from),
      length,
      length,
      (pattern, start, end) => add(pattern, from + start, from + end),
    );
    const { codes, length: count, stable, starts, ends } = fold(text, from);
    const foldedDepth = this.#folded.scan(
      codes,
      count,
      stable,
      (pattern, start, end) => add(pattern, starts[start], ends[end - 1]),
    );
    const begin = stable - foldedDepth;
    return [
      { start: text.length - depth, depth },
      { start: begin < count ? starts[begin] : text.length, depth: foldedDepth },
    ];
  }
}

/** A form of a secret. */
interface Pattern {
  ref: string;
  coding?: string;
  codes: Uint8Array;
}

/** Codes to search for, with the refs of their secrets. */
class Patterns {
  readonly #patterns: readonly Pattern[];
  readonly #matcher: Matcher;
  /** fewest codes of a pattern */
  readonly least: number;

  constructor(patterns: readonly Pattern[]) {
    this.least = patterns.reduce((least, { codes }) => Math.min(least, codes.length), Infinity);
    this.#patterns = patterns;
    this.#matcher = new Matcher(patterns.map(({ codes }) => codes));
  }

  get size(): number {
    return this.#patterns.length;
  }

  /** As {@linkcode Matcher.scan}, with patterns. */
  scan(
    codes: Uint8Array,
    length: number,
    stable: number,
    report: (pattern: Pattern, start: number, end: number) => void,
  ): number {
    return this.#matcher.scan(
      codes,
      length,
      stable,
      (pattern, start, end) => report(this.#patterns[pattern], start, end),
    );
  }
}

/** Finds tokens and refs. @returns start of a possible partial one at the end of the text */
function scanShapes(text: string, from: number, matches: SecretMatch[], patterns: ShapePatterns): number {
  const search = new ShapeSearch(text, from, patterns);
  for (let match = search.next(); match; match = search.next()) {
    const [hit] = match;
    const isRef = hit.startsWith("credential");
    matches.push({
      start: match.index,
      end: match.index + hit.length,
      kind: isRef ? "ref" : "token",
      text: hit,
      ...(isRef && { ref: plainRef(hit) }),
    });
  }
  const window = startOfWord(text, Math.max(from, text.length - PART_MAX));
  if (window === text.length) return window;
  // One character earlier, so that the middle of a word does not match as a beginning.
  const before = Math.max(0, window - 1);
  const part = patterns.part.exec(text.slice(before));
  return part ? Math.max(window, before + part.index) : text.length;
}

/**
 * Merges overlaps. At the same start, known secrets come before shapes, and longer matches before shorter
 * ones.
 */
function mergeOverlaps(matches: SecretMatch[]): SecretMatch[] {
  const rank = { secret: 0, ref: 1, token: 2 };
  matches.sort((a, b) => a.start - b.start || rank[a.kind] - rank[b.kind] || b.end - a.end);
  const merged: SecretMatch[] = [];
  for (const next of matches) {
    const last = merged.at(-1);
    if (!last || next.start >= last.end) merged.push(next);
    else {
      last.end = Math.max(last.end, next.end);
      if (last.kind !== "secret" && next.kind === "secret") {
        [last.kind, last.ref] = [next.kind, next.ref];
        if (next.coding) last.coding = next.coding;
      }
    }
  }
  return merged;
}

// Search for many patterns at once (Aho and Corasick), in time linear in the text, even when a
// guest chooses text and patterns.

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
