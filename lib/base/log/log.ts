const encoder = new TextEncoder();

/**
 * Writes one line, prefixed with the time. Never throws, unlike `console.error`: on a full disk a lost log line must
 * not end the process.
 *
 * @param parts strings as they are, errors with their stack, other values inspected
 */
export function log(...parts: unknown[]): void {
  const texts = parts.map((part) =>
    typeof part === "string" ? part : Deno.inspect(part, { colors: false, strAbbreviateSize: Infinity })
  );
  say(`${new Date().toISOString()} ${texts.join(" ")}`);
}

/** Writes a line without the time, such as a startup error for the parent process. Never throws. */
export function say(line: string): void {
  const bytes = encoder.encode(`${line}\n`);
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
  } catch {
    // Full disk or closed pipe: nowhere left to report it.
  }
}
