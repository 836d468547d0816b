/** Keys of JSON texts, which `JSON.parse` forgets when they repeat. */
import { JSON_DEPTH_MAX } from "./limit.ts";

const QUOTE = 34;
const COLON = 58;
const OPEN = new Set([0x5b, 0x7b]);
const CLOSE = new Set([0x5d, 0x7d]);

/**
 * Finds why receivers may read a JSON text differently: a key that repeats within an object, of which some take the
 * first and some the last, or deep nesting, which some refuse.
 *
 * @param text valid JSON
 * @returns a clause about the body; `undefined` for a text that everybody reads the same
 */
export function findAmbiguity(text: string): string | undefined {
  /** keys of each open object or list; absent before the first one */
  const open: (Set<string> | undefined)[] = [];
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = stringEnd(text, at);
      const colon = skipSpace(text, end);
      if (text.charCodeAt(colon) === COLON) {
        const key = JSON.parse(text.slice(at, end)) as string;
        const keys = open[open.length - 1] ??= new Set();
        if (keys.has(key)) return `its body repeats the key ${JSON.stringify(key.slice(0, 40))}`;
        keys.add(key);
        at = colon + 1;
      } else at = end;
      continue;
    }
    if (OPEN.has(code)) open.push(undefined);
    else if (CLOSE.has(code)) open.pop();
    if (open.length > JSON_DEPTH_MAX) return `its body is nested more than ${JSON_DEPTH_MAX} deep`;
    at++;
  }
}

/** Offset behind a string that begins at `start`. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1);; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (" \t\r\n".includes(text[at] ?? "x")) at++;
  return at;
}
