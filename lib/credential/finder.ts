import { formsOf } from "./form.ts";
import { Needle } from "./needle.ts";
import { plainRef, REF_IN_TEXT, REF_PREFIX } from "./ref.ts";
import { TOKEN_IN_TEXT, TOKEN_MAX, TOKEN_PART } from "./token.ts";

/** Something in a text that must not go on as it is. */
export interface Found {
  start: number;
  end: number;
  /** `secret`: a form of one that is known. `token`: what looks like one. `ref`: a reference */
  kind: "secret" | "token" | "ref";
  text: string;
  /** of a known secret, or the reference itself without percent-encoding */
  ref?: string;
}

const STATIC = new RegExp(`${REF_IN_TEXT}|${TOKEN_IN_TEXT}`, "g");
const COLON = "(?::|%3[Aa])";
/** `c`, `cr` … `credential%3` … `credential:blake3:`: what a ref may be cut to before its digits begin. */
const REF_PARTS = Array.from(REF_PREFIX, (_, at) => {
  const part = REF_PREFIX.slice(0, at + 1).replaceAll(":", COLON);
  return REF_PREFIX[at + 1] === ":" ? `${part}(?:%3?)?` : part;
});
/** What the end of a text may be the beginning of. */
const PART = new RegExp(
  `(?:${REF_PARTS.join("|")}|credential${COLON}blake3${COLON}[0-9a-f]{0,63}|${TOKEN_PART})$`,
);
/** Longest beginning that {@linkcode PART} can find: a token, or a ref with its colons encoded. */
const PART_MAX = TOKEN_MAX + 16;

/** Finds known secrets, tokens and refs. Made anew when what is known changes. */
export class Finder {
  readonly #needles: Needle[];

  readonly #shapes: boolean;

  /**
   * @param secrets ref → secret
   * @param options.shapes whether tokens and refs are looked for too
   */
  constructor(secrets: Iterable<[ref: string, secret: string]>, { shapes = true } = {}) {
    this.#shapes = shapes;
    this.#needles = [...secrets].flatMap(([ref, secret]) =>
      formsOf(secret).map((form) => new Needle(form, ref))
    )
      .sort((a, b) => b.text.length - a.text.length);
  }

  /**
   * Everything in `text` from `from` on, in order. What overlaps is one: the whole of it is to be replaced by what
   * stands for its first part.
   */
  find(text: string, from = 0): Found[] {
    const found: Found[] = [];
    for (const needle of this.#needles) {
      for (let start = needle.indexIn(text, from), end; start >= 0; start = needle.indexIn(text, end)) {
        end = start + needle.text.length;
        found.push({ start, end, kind: "secret", text: needle.text, ref: needle.ref });
      }
    }
    STATIC.lastIndex = from;
    for (let match = this.#shapes ? STATIC.exec(text) : null; match; match = STATIC.exec(text)) {
      const [hit] = match;
      const isRef = hit.startsWith("credential");
      found.push({
        start: match.index,
        end: match.index + hit.length,
        kind: isRef ? "ref" : "token",
        text: hit,
        ...(isRef && { ref: plainRef(hit) }),
      });
    }
    return found.length > 1 ? merged(found) : found;
  }

  /** Where the end of `text` begins that may be a part of something; its length when nothing may. */
  held(text: string, from = 0): number {
    const window = Math.max(from, text.length - PART_MAX);
    // One character before it, so that the middle of a word is no beginning.
    const before = Math.max(0, window - 1);
    const part = this.#shapes ? PART.exec(text.slice(before)) : null;
    let held = part ? Math.max(window, before + part.index) : text.length;
    for (const needle of this.#needles) held = Math.min(held, text.length - needle.heldBy(text, from));
    return held;
  }
}

/** Known secrets before what only looks like one, and the longer before the shorter, where both begin at one place. */
function merged(found: Found[]): Found[] {
  const rank = { secret: 0, ref: 1, token: 2 };
  found.sort((a, b) => a.start - b.start || rank[a.kind] - rank[b.kind] || b.end - a.end);
  const kept: Found[] = [];
  for (const next of found) {
    const last = kept.at(-1);
    if (!last || next.start >= last.end) kept.push(next);
    else {
      last.end = Math.max(last.end, next.end);
      if (last.kind !== "secret" && next.kind === "secret") [last.kind, last.ref] = [next.kind, next.ref];
    }
  }
  return kept;
}
