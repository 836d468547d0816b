/** Part of a text that is replaced. */
export interface Span {
  start: number;
  end: number;
  /** text in its place; {@linkcode REDACTED} when absent */
  mark?: string;
}

/** Placeholder of a secret. */
export const REDACTED = "[redacted]";

/** Replaces spans. Overlapping ones become one, with the mark of the first. */
export function replaceSpans(text: string, spans: Span[]): string {
  if (spans.length === 0) return text;
  spans.sort((a, b) => a.start - b.start || b.end - a.end);
  let out = "";
  let at = 0;
  for (const { start, end, mark = REDACTED } of spans) {
    if (start >= at) out += text.slice(at, start) + mark;
    at = Math.max(at, end);
  }
  return out + text.slice(at);
}

// Invisible parts of a text: sequences by which programs color their output, as bytes, as others write them
// down, or as sbx shows them; marks without width; and the zeros of UTF-16. A sequence before a secret ends
// in a letter, so that no word begins there; anything inside of a secret parts it.

const SEQUENCE =
  // deno-lint-ignore no-control-regex
  /(?:\x1b|\ufffd|\\u001[bB]|\\x1[bB]|\\0?33|\\e|\^\[)(?:\[[0-9;:<=>?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\))|\x9b[0-9;:<=>?]{0,32}[ -/]{0,4}[@-~]|(?:[\x00\xad\u200b-\u200f\u2060\ufeff]|\\u0000|\\x00)+/g;

/** Another reading of a text, and the places of its spans in that text. */
interface Reading {
  text: string;
  place(span: Span): Span;
}

/** The text as it is; and, where it has sequences, with spaces in their place, and without them. */
export function readingsOf(text: string): Reading[] {
  const as: Reading = { text, place: (span) => span };
  const sequences = Array.from(
    text.matchAll(SEQUENCE),
    ({ index, 0: { length } }) => [index, length] as const,
  );
  if (sequences.length === 0) return [as];
  const spaced: Reading = {
    text: text.replaceAll(SEQUENCE, (sequence) => " ".repeat(sequence.length)),
    place: (span) => span,
  };
  /** Where each kept part begins: in the text without sequences, and in the whole one. */
  const parts: [bare: number, whole: number][] = [[0, 0]];
  let removed = 0;
  for (const [index, length] of sequences) {
    parts.push([index - removed, index + length]);
    removed += length;
  }
  const wholeOf = (bare: number) => {
    let [low, high] = [0, parts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (parts[middle][0] <= bare) low = middle;
      else high = middle - 1;
    }
    return parts[low][1] + bare - parts[low][0];
  };
  const bare: Reading = {
    text: text.replaceAll(SEQUENCE, ""),
    place: ({ start, end, ...span }) => ({ ...span, start: wholeOf(start), end: wholeOf(end - 1) + 1 }),
  };
  return [as, spaced, bare];
}
