import { formsOf } from "./form.ts";
import { Needle } from "./needle.ts";
import { plainRef, REF_IN_TEXT, REF_PREFIX } from "./ref.ts";
import { TOKEN_IN_TEXT, TOKEN_MAX, TOKEN_PART } from "./token.ts";

/** Part of a text that must be replaced. */
export interface SecretMatch {
  start: number;
  end: number;
  /** `secret`: a form of a known one. `token`: text shaped like one. `ref`: a reference */
  kind: "secret" | "token" | "ref";
  text: string;
  /** ref of a known secret, or the reference itself without percent-encoding */
  ref?: string;
}

const STATIC = new RegExp(`${REF_IN_TEXT}|${TOKEN_IN_TEXT}`, "g");
const COLON = "(?::|%3[Aa])";
/** `c`, `cr` … `credential%3` … `credential:blake3:`: prefixes of a ref cut before its digits. */
const REF_PARTS = Array.from(REF_PREFIX, (_, at) => {
  const part = REF_PREFIX.slice(0, at + 1).replaceAll(":", COLON);
  return REF_PREFIX[at + 1] === ":" ? `${part}(?:%3?)?` : part;
});
/** End of a text that may be the beginning of a ref or token. */
const PART = new RegExp(
  `(?:${REF_PARTS.join("|")}|credential${COLON}blake3${COLON}[0-9a-f]{0,63}|${TOKEN_PART})$`,
);
/** Longest match of {@linkcode PART}: a token, or a ref with its colons encoded. */
const PART_MAX = TOKEN_MAX + 16;

/** Finds known secrets, tokens and refs. A change of the known secrets needs a new finder. */
export class Finder {
  readonly #needles: Needle[];

  readonly #shapes: boolean;

  /**
   * @param secrets ref → secret
   * @param options.shapes also finds tokens and refs
   */
  constructor(secrets: Iterable<[ref: string, secret: string]>, { shapes = true } = {}) {
    this.#shapes = shapes;
    this.#needles = [...secrets].flatMap(([ref, secret]) =>
      formsOf(secret).map((form) => new Needle(form, ref))
    )
      .sort((a, b) => b.text.length - a.text.length);
  }

  /**
   * Matches in `text` at or after `from`, in order. Overlapping matches become one, to be replaced by the
   * replacement of the first.
   */
  find(text: string, from = 0): SecretMatch[] {
    const matches: SecretMatch[] = [];
    for (const needle of this.#needles) {
      for (let start = needle.indexIn(text, from), end; start >= 0; start = needle.indexIn(text, end)) {
        end = start + needle.text.length;
        matches.push({ start, end, kind: "secret", text: needle.text, ref: needle.ref });
      }
    }
    STATIC.lastIndex = from;
    for (let match = this.#shapes ? STATIC.exec(text) : null; match; match = STATIC.exec(text)) {
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
    return matches.length > 1 ? mergeOverlaps(matches) : matches;
  }

  /** Start of a possible partial match at the end of `text`; the length of `text` when there is none. */
  partialStart(text: string, from = 0): number {
    const window = Math.max(from, text.length - PART_MAX);
    // One character earlier, so that the middle of a word does not match as a beginning.
    const before = Math.max(0, window - 1);
    const part = this.#shapes ? PART.exec(text.slice(before)) : null;
    let start = part ? Math.max(window, before + part.index) : text.length;
    for (const needle of this.#needles) {
      start = Math.min(start, text.length - needle.partialLength(text, from));
    }
    return start;
  }
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
      if (last.kind !== "secret" && next.kind === "secret") [last.kind, last.ref] = [next.kind, next.ref];
    }
  }
  return merged;
}
