/** Timers, most of which do not keep the process alive, and the host's sleep. */
export { HostSleep } from "./sleep.ts";

/**
 * Variable that multiplies limits of time, and its range (docs/design/contracts/14-limits.md §14, "Time").
 */
export const TIME_FACTOR_VARIABLE = "SBX_TIME_FACTOR";
const FACTOR_MIN = 1, FACTOR_MAX = 100;

/**
 * Reads a value of SBX_TIME_FACTOR; empty counts as unset.
 *
 * @returns the active factor, and the problem of an invalid value
 */
export function parseTimeFactor(text: string | undefined): { factor: number; problem?: string } {
  if (!text) return { factor: FACTOR_MIN };
  const factor = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  if (factor >= FACTOR_MIN && factor <= FACTOR_MAX) return { factor };
  const problem =
    `${TIME_FACTOR_VARIABLE}=${JSON.stringify(text.slice(0, 40))} is not a factor: 1 applies; ` +
    `set it to a number from ${FACTOR_MIN} to ${FACTOR_MAX}`;
  return { factor: FACTOR_MIN, problem };
}

// Read when the program starts: several roles give up the permission to read their environment.
export const TIME_FACTOR = parseTimeFactor(readVariable());

/**
 * A limit of time on this machine: `ms` times SBX_TIME_FACTOR, rounded. For waits that end with an error or a
 * substitute, not for intervals or for the life of anything.
 */
export function timeLimit(ms: number): number {
  return Math.round(ms * TIME_FACTOR.factor);
}

/** The variable; undefined in roles that may not read their environment, and in browsers. */
function readVariable(): string | undefined {
  try {
    return Deno.env.get(TIME_FACTOR_VARIABLE);
  } catch {
    return undefined;
  }
}

/** `setTimeout` that does not keep the process alive. */
export function backgroundTimeout(callback: () => void, ms: number): number {
  const timer = setTimeout(callback, ms) as unknown as number;
  Deno.unrefTimer(timer);
  return timer;
}

/** `setInterval` that does not keep the process alive. */
export function backgroundInterval(callback: () => void, ms: number): number {
  const timer = setInterval(callback, ms) as unknown as number;
  Deno.unrefTimer(timer);
  return timer;
}

/** Resolves after `ms`; the process may end earlier. */
export function backgroundDelay(ms: number): Promise<void> {
  return new Promise((resolve) => backgroundTimeout(resolve, ms));
}

/** Rejects with `error()` after `ms`; the process may end earlier. */
export function rejectAfter(ms: number, error: () => Error): Promise<never> {
  return new Promise((_, reject) => backgroundTimeout(() => reject(error()), ms));
}

/** Lateness of a timer in `ms` from which this process counts as having stood still. */
const STALL_MS = 200;
/** Times that a deadline is restarted. */
const STALLS_MAX = 2;

/**
 * Resolves after `ms` in which this process did run. A timer that fires late, since the process was busy or
 * got no processor, fires before answers that have already arrived, and reveals nothing about their senders.
 */
export async function fairDelay(ms: number): Promise<void> {
  for (let stalls = 0;; stalls++) {
    const due = performance.now() + ms;
    await backgroundDelay(ms);
    if (stalls === STALLS_MAX || performance.now() - due < STALL_MS) return;
  }
}

/** Resolves after `ms`, or as soon as the signal is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, signal.aborted ? 0 : ms);
    signal.addEventListener("abort", end);
  });
}
