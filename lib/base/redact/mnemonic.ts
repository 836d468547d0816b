/** Mnemonics of wallets: 12 to 24 words of BIP-39 in a row, also numbered, quoted, or one a line. */
import { MNEMONIC_WORDS } from "./mnemonic_words.ts";
import type { Span } from "./span.ts";

/** Fewest words of a mnemonic, how many of them differ, and letters of its words. */
const WORDS_MIN = 12;
const DIFFERENT_MIN = 6;
const LETTERS_MIN = 3, LETTERS_MAX = 8;
/** Kinds of characters of ASCII: of words, between two words, and between them behind a number only. */
const LETTER = 1, BETWEEN = 2, BEHIND_NUMBER = 3;
const KINDS = new Uint8Array(128);
for (let code = 0x61; code <= 0x7a; code++) KINDS[code] = KINDS[code - 0x20] = LETTER;
for (const between of " \t\r\n,\"'\\0123456789") KINDS[between.charCodeAt(0)] = BETWEEN;
for (const behind of ".:)") KINDS[behind.charCodeAt(0)] = BEHIND_NUMBER;
const BACKSLASH = 0x5c, ZERO = 0x30, NINE = 0x39;

/** Mnemonics; longer runs of such words too, since the words around one may be in the list as well. */
export function findMnemonics(text: string): Span[] {
  if (text.length < WORDS_MIN * (LETTERS_MIN + 1) - 1) return [];
  return runsOf(text).flatMap(([begin, end]) => findIn(text.slice(begin, end), begin));
}

/** Places with enough words of such lengths. Character by character: expressions take ten times as long. */
function runsOf(text: string): [begin: number, end: number][] {
  const runs: [number, number][] = [];
  let words = 0, letters = 0, begin = 0, before = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = text.charCodeAt(at);
    const kind = code < 128 ? KINDS[code] : 0;
    if (kind === LETTER) {
      if (letters++ === 0 && words === 0) begin = at;
    } else {
      const isWord = letters >= LETTERS_MIN && letters <= LETTERS_MAX;
      if (isWord) words++;
      const goesOn = (isWord || letters === 0) &&
        (kind === BETWEEN || kind === BEHIND_NUMBER && before >= ZERO && before <= NINE);
      if (!goesOn) {
        if (words >= WORDS_MIN) runs.push([begin, at]);
        words = 0;
      }
      letters = 0;
      // `\n` and `\"` of JSON.
      if (code === BACKSLASH) at++;
    }
    before = code;
  }
  return runs;
}

function findIn(run: string, begin: number): Span[] {
  const spans: Span[] = [];
  let found: [at: number, word: string][] = [];
  const end = () => {
    // A list in alphabetical order is one of words.
    const isSorted = found.every(([, word], at) => at === 0 || found[at - 1][1] < word);
    const isVaried = new Set(found.map(([, word]) => word)).size >= DIFFERENT_MIN;
    if (found.length >= WORDS_MIN && isVaried && !isSorted) {
      const [at, word] = found.at(-1)!;
      spans.push({ start: begin + found[0][0], end: begin + at + word.length });
    }
    found = [];
  };
  for (const { index, 0: word } of run.replaceAll(/\\[a-z]/g, "  ").matchAll(/[A-Za-z]+/g)) {
    if (MNEMONIC_WORDS.has(word.toLowerCase())) found.push([index, word.toLowerCase()]);
    else end();
  }
  end();
  return spans;
}
