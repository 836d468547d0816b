/** Private keys over several lines: PEM, OpenSSH, PGP and PuTTY. */
import type { Span } from "./span.ts";

/** Longest private key in characters: RSA of 16,384 bits has 12,700. */
const KEY_MAX = 16 * 1024;

const BEGIN = /-----BEGIN [A-Z0-9 _-]{0,60}PRIVATE KEY[A-Z ]{0,10}-----|PuTTY-User-Key-File-\d/g;
const END = /-----END [A-Z0-9 _-]{0,60}PRIVATE KEY[A-Z ]{0,10}-----|Private-MAC:\s{0,4}[0-9a-f]{1,128}/g;
/** Breaks between lines of a key, also escaped in JSON. */
const BREAK = /\\[rn]|\s/;
const BASE64 = /^[A-Za-z0-9+/=]{0,80}$/;

/**
 * Keys from their first line to their last. A key without end is withheld for its greatest length, and so is base64 before
 * an end without beginning: a tail of a log may begin inside a key.
 */
export function findPrivateKeys(text: string): Span[] {
  const spans: Span[] = [];
  let done = 0;
  BEGIN.lastIndex = 0;
  for (let begin = BEGIN.exec(text); begin; begin = BEGIN.exec(text)) {
    const piece = text.slice(begin.index, begin.index + KEY_MAX);
    END.lastIndex = 0;
    const end = END.exec(piece);
    done = begin.index + (end ? end.index + end[0].length : piece.length);
    spans.push({ start: begin.index, end: done });
    BEGIN.lastIndex = done;
  }
  return [...spans, ...findEnds(text)];
}

function findEnds(text: string): Span[] {
  let from = 0;
  return Array.from(text.matchAll(END)).flatMap(({ index, 0: { length } }) => {
    const key = base64AtEnd(text.slice(Math.max(from, index - KEY_MAX), index));
    from = index + length;
    return key > 0 ? [{ start: index - key, end: from }] : [];
  });
}

/** Characters of the lines of base64 at the end of a text. */
function base64AtEnd(text: string): number {
  const lines = text.split(BREAK);
  const first = lines.findLastIndex((line) => !BASE64.test(line));
  const key = lines.slice(first + 1).find((line) => line !== "");
  return key === undefined ? 0 : text.length - text.indexOf(key, lines.slice(0, first + 1).join(" ").length);
}
