const encoder = new TextEncoder();

/**
 * Writes one line with the time before it. Never throws: the log is on the same disk as everything else, and when that
 * is full nothing may end for want of a line in it, as it would with `console.error`.
 *
 * @param parts texts stand as they are, of an error its stack, and of anything else what it holds
 */
export function log(...parts: unknown[]): void {
  const texts = parts.map((part) =>
    typeof part === "string" ? part : Deno.inspect(part, { colors: false, strAbbreviateSize: Infinity })
  );
  say(`${new Date().toISOString()} ${texts.join(" ")}`);
}

/** Writes a line as it is, such as the last words of a role whose starter reads them. Never throws. */
export function say(line: string): void {
  const bytes = encoder.encode(`${line}\n`);
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
  } catch {
    // A disk that is full, or a reader that went away: there is nobody left to tell.
  }
}
