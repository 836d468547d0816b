import { TIME_FACTOR } from "../time/mod.ts";
import { LOG_LEVELS, type LogLevel, parseLevel, readLevelVariable } from "./level.ts";

const encoder = new TextEncoder();
let redact: ((text: string) => string) | undefined;
// Read once: several roles give up their environment later.
const { level: threshold, problem } = parseLevel(readLevelVariable());
for (const each of [problem, TIME_FACTOR.problem]) if (each !== undefined) say(each);

/**
 * Writes one line with time and level, if `SBX_LOG` includes the level. Never throws, unlike `console.error`: on a full
 * disk a lost log line must not end the process. Takes strings as they are, errors with their stack, and inspects other
 * values.
 *
 * - `error`: a failure of sbx itself, or one that stops a VM
 * - `warn`: a problem that sbx works around
 * - `info`: a change of state
 * - `debug`: each request and call by its name; never values, queries, bodies or causes, which may have secrets
 */
export const log = {
  error: (...parts: unknown[]): void => write("error", parts),
  warn: (...parts: unknown[]): void => write("warn", parts),
  info: (...parts: unknown[]): void => write("info", parts),
  debug: (...parts: unknown[]): void => write("debug", parts),
};

/** Sets the function that removes secrets from each line. If it fails on a line, the line is withheld. */
export function redactLog(text: (line: string) => string): void {
  redact = text;
}

/** True if lines of a level are written. */
export function isLogged(level: LogLevel): boolean {
  return LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(threshold);
}

function write(level: LogLevel, parts: unknown[]): void {
  if (!isLogged(level)) return;
  const texts = parts.map((part) =>
    typeof part === "string" ? part : Deno.inspect(part, { colors: false, strAbbreviateSize: Infinity })
  );
  say(`${new Date().toISOString()} ${level} ${texts.join(" ")}`);
}

/** Writes a line of any level without the time, such as a startup error for the parent process. Never throws. */
export function say(line: string): void {
  try {
    const bytes = encoder.encode(`${redact ? redact(line) : line}\n`);
    for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
  } catch {
    // Full disk, closed pipe, or a line that cannot be made safe: nowhere left to report it.
  }
}
