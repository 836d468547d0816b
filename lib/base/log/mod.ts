/** Logging to standard error, which is a file for background roles (`lib/base/spawn`). */
import { TIME_FACTOR } from "../time/mod.ts";

/** Levels of `SBX_LOG` (docs/design/contracts/01-homes.md §1), from the fewest lines to the most. */
const LOG_LEVELS = ["error", "warn", "info", "debug"] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

const DEFAULT: LogLevel = "info";

/**
 * Reads the value of `SBX_LOG`; empty counts as unset.
 *
 * @returns the active level, and the problem of an invalid value
 */
function parseLevel(text: string | undefined): { level: LogLevel; problem?: string } {
  if (!text) return { level: DEFAULT };
  const level = LOG_LEVELS.find((one) => one === text);
  if (level) return { level };
  const problem = `SBX_LOG=${JSON.stringify(text.slice(0, 40))} is not a log level: ${DEFAULT} applies; ` +
    `set it to ${LOG_LEVELS.slice(0, -1).join(", ")} or ${LOG_LEVELS.at(-1)}`;
  return { level: DEFAULT, problem };
}

/** `SBX_LOG` of this process. Undefined in roles that may not read their environment. */
function readLevelVariable(): string | undefined {
  try {
    return Deno.env.get("SBX_LOG");
  } catch {
    return undefined;
  }
}

const encoder = new TextEncoder();
let redact: ((text: string) => string) | undefined;
// Read once: several roles give up their environment later.
const { level: threshold, problem } = parseLevel(readLevelVariable());
for (const each of [problem, TIME_FACTOR.problem]) if (each !== undefined) say(each);

/**
 * Writes one line with time and level, if `SBX_LOG` includes the level. Never throws, unlike `console.error`:
 * on a full disk a lost log line must not end the process. Takes strings as they are, errors with their
 * stack, and inspects other values.
 *
 * - `error`: a failure of sbx itself, or one that stops a VM
 * - `warn`: a problem that sbx works around
 * - `info`: a change of state
 * - `debug`: each request and call by its name; never values, queries, bodies or
 *   causes, which may have secrets
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

/**
 * Writes a line of any level without the time, such as a startup error for the parent process. Never throws.
 */
export function say(line: string): void {
  try {
    const bytes = encoder.encode(`${redact ? redact(line) : line}\n`);
    for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
  } catch {
    // Full disk, closed pipe, or a line that cannot be made safe: nowhere left to report it.
  }
}

/**
 * Logs unhandled promise rejections instead of ending the process, for a role that serves many clients: a
 * failure in one task must not end the others.
 */
export function outliveRejections(): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log.error("unhandled:", event.reason);
  });
}
