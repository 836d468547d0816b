/** Programs started by tests, with a time limit: one that hangs fails its test, and not the whole run. */
import { timeLimit } from "../../lib/base/time/mod.ts";

/** Time limit in `ms`, with room for a busy machine; SBX_TIME_FACTOR multiplies each of them. */
const LIMIT_MS = 120_000;

/**
 * Runs a program and waits for its end, as `new Deno.Command(…).output()` does.
 *
 * @throws {Error} it did not end within `limitMs`, and was killed
 */
export async function runChild(
  program: string | URL,
  options: Omit<Deno.CommandOptions, "signal" | "stdin" | "stdout" | "stderr"> = {},
  limitMs = LIMIT_MS,
): Promise<Deno.CommandOutput> {
  const child = new Deno.Command(program, { ...options, stdin: "null", stdout: "piped", stderr: "piped" })
    .spawn();
  const late = Promise.withResolvers<never>();
  const limit = timeLimit(limitMs);
  const timer = setTimeout(() => {
    child.kill("SIGKILL");
    late.reject(new Error(`${describeCommand(program, options.args)} was killed after ${limit} ms`));
  }, limit);
  const output = child.output();
  // Not awaited after a kill: its own children may keep the pipes open.
  output.catch(() => {});
  try {
    return await Promise.race([output, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Kills a started program that still runs after `limitMs`. @returns the program */
export function limitChild(child: Deno.ChildProcess, limitMs = LIMIT_MS): Deno.ChildProcess {
  const limit = timeLimit(limitMs);
  const timer = setTimeout(() => {
    console.error(`pid ${child.pid} was killed after ${limit} ms`);
    child.kill("SIGKILL");
  }, limit);
  child.status.then(() => clearTimeout(timer));
  return child;
}

function describeCommand(program: string | URL, args: string[] = []): string {
  const text = [program, ...args].join(" ");
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
