import type { Random } from "./random.ts";

/** What damage puts in: separators, JSON of other shapes, and characters that parsers stumble over. */
const SPLICES = [
  "..",
  "/",
  "\\",
  '"',
  "{",
  "}",
  "[]",
  "null",
  "-1",
  "1e999",
  "__proto__",
  "\u0000",
  "\ud800",
  "é",
];

/** Changes one to three places of a text: other bytes, bytes that are missing, bytes put in between. */
export function damage(bytes: Uint8Array, random: Random): Uint8Array {
  const out = [...bytes];
  for (let times = 1 + random.below(3); times > 0; times--) {
    const at = random.below(out.length);
    if (random.below(3) === 0) out[at] = random.below(256);
    else if (random.below(2) === 0) out.splice(at, random.below(20));
    else out.splice(at, random.below(4), ...new TextEncoder().encode(random.pick(SPLICES)));
  }
  return Uint8Array.from(out);
}
