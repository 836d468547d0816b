import { FOREIGN_CHARS_MAX } from "./limit.ts";

// deno-lint-ignore no-control-regex
const UNPRINTABLE = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;

/** Failure of a stdio server: the aggregator cannot start programs. */
export const STDIO_UNSUPPORTED = "stdio servers are not supported; only HTTP servers are";

/** Text of a server made safe for a log or an error: one printable line of at most `max` characters. */
export function foreignText(text: string, max = FOREIGN_CHARS_MAX): string {
  const line = text.slice(0, max * 2).replace(UNPRINTABLE, " ").trim().toWellFormed();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}
