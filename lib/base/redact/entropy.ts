/** Words that look random: keys of services that no table names. */

/** Fewest characters of a word that looks random. */
export const WORD_MIN = 20;
/** Fewest letters and digits in a row of such a word. */
const RUN_MIN = 16;
/** Fewest bits a character of such a row. */
const RUN_BITS = 3;
/**
 * Fewest changes between lower case, upper case and digits in a row, a
 * character: names in programs have fewer.
 */
const CHANGES = 0.25;
/** Lengths of hashes and ids in lower-case hex: parts of names of files, traces, commits, BLAKE3, SHA-512. */
const HEX_LENGTHS = new Set([16, 32, 40, 64, 128]);

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Entropy of a text's characters in `bits` each. */
export function bitsOf(text: string): number {
  const counts = new Map<string, number>();
  for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1);
  return [...counts.values()].reduce(
    (bits, count) => bits - count / text.length * Math.log2(count / text.length),
    0,
  );
}

/** Tests for letters and digits in a row, of both kinds. */
export function hasRun(word: string, min = RUN_MIN): boolean {
  return runsOf(word, min).some(isMixed);
}

/** True for UUIDs, which are ids. */
export function isUuid(word: string): boolean {
  return UUID.test(word);
}

/** True for hashes and ids in hex. */
export function isHash(word: string): boolean {
  return HEX_LENGTHS.has(word.length) && /^[0-9a-f]+$/.test(word);
}

/** Tests whether a word of a text looks like a key: random, and neither a hash nor an id. */
export function looksRandom(word: string): boolean {
  if (word.length < WORD_MIN || isUuid(word)) return false;
  return runsOf(word, RUN_MIN).some((run) => !isHash(run) && isMixed(run) && changesOf(run) >= CHANGES);
}

function runsOf(word: string, min: number): string[] {
  return (word.match(/[A-Za-z0-9]+/g) ?? []).filter((run) => run.length >= min);
}

function isMixed(run: string): boolean {
  return /[0-9]/.test(run) && /[A-Za-z]/.test(run) && bitsOf(run) >= RUN_BITS;
}

/** Changes between lower case, upper case and digits, per character; without the changes of camel case. */
function changesOf(run: string): number {
  const kinds = Array.from(run, (char) => char <= "9" ? 0 : char <= "Z" ? 1 : 2);
  return kinds.filter((kind, at) => at > 0 && kind !== kinds[at - 1] && !(kind === 2 && kinds[at - 1] === 1))
    .length / run.length;
}
