/**
 * The program of an image, as its configuration describes it and the service `image` of a VM runs it
 * (docs/guides/environments.md). All of it is an image's: fields that are wrong or too long are left out.
 */
import { z } from "zod";
import { type EnvironmentConfig, type HealthCheck, type ImageProgram, PROGRAM_WORDS_MAX } from "./schema.ts";

/** Most `characters` of all words of a program (docs/design/contracts/14-limits.md §14). */
const CHARS_MAX = 64 * 1024;
/** Most ports of an image. */
const PORTS_MAX = 64;
/** Docker's defaults for a health check, in `ms`, and the least and most of each. */
const INTERVAL_MS = 30_000, TIMEOUT_MS = 30_000, START_INTERVAL_MS = 5000;
const RETRIES = 3, RETRIES_MAX = 100;
const SECOND_MS = 1000, HOUR_MS = 3_600_000;
const NS_PER_MS = 1e6;

const Words = z.array(z.string().refine((word) => !word.includes("\0"))).min(1).max(PROGRAM_WORDS_MAX)
  .refine((words) => words.join("").length <= CHARS_MAX);
const Nanoseconds = z.number().min(0).optional();
/** As Docker writes it; a field of another kind makes it none. */
const Health = z.object({
  Test: Words,
  Interval: Nanoseconds,
  Timeout: Nanoseconds,
  StartPeriod: Nanoseconds,
  StartInterval: Nanoseconds,
  Retries: z.int().min(0).optional(),
});

/** The program of an image's configuration. @returns undefined: it names none that a VM can run */
export function imageProgram({ entrypoint = [], cmd = [], healthcheck, stop_signal }: EnvironmentConfig):
  | ImageProgram
  | undefined {
  const { data: command } = Words.safeParse([...entrypoint, ...cmd]);
  if (!command) return undefined;
  const health = healthOf(healthcheck);
  const signal = stop_signal === undefined ? undefined : signalOf(stop_signal);
  return { command, ...health && { health }, ...signal !== undefined && { stop_signal: signal } };
}

/** TCP ports that an image says its program listens on. */
export function imagePorts({ exposed_ports = [] }: EnvironmentConfig): number[] {
  const ports = exposed_ports.flatMap((text) => {
    const [, from, to = from] = /^(\d{1,5})(?:-(\d{1,5}))?(?:\/tcp)?$/i.exec(text) ?? [];
    const [first, last] = [Number(from), Number(to)];
    if (!(first >= 1 && first <= last && last <= 65_535)) return [];
    return Array.from({ length: Math.min(last - first + 1, PORTS_MAX) }, (_, at) => first + at);
  });
  return [...new Set(ports)].sort((a, b) => a - b).slice(0, PORTS_MAX);
}

function healthOf(value: unknown): HealthCheck | undefined {
  const { data } = Health.safeParse(value);
  if (!data) return undefined;
  const [kind, ...words] = data.Test;
  const command = kind === "CMD" ? words : kind === "CMD-SHELL" ? ["/bin/sh", "-c", ...words] : [];
  if (command.length === 0 || kind === "CMD-SHELL" && words.length !== 1) return undefined;
  // 0 is Docker's way to say nothing.
  const ms = (ns: number | undefined, usual: number, least = SECOND_MS) =>
    Math.min(Math.max(ns ? ns / NS_PER_MS : usual, least), HOUR_MS);
  return {
    command,
    interval_ms: ms(data.Interval, INTERVAL_MS),
    timeout_ms: ms(data.Timeout, TIMEOUT_MS),
    start_ms: ms(data.StartPeriod, 0, 0),
    start_interval_ms: ms(data.StartInterval, START_INTERVAL_MS),
    retries: Math.min(data.Retries || RETRIES, RETRIES_MAX),
  };
}

/** Signals of Linux by number, as on x86_64 and arm64. */
const SIGNALS =
  ("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP " +
    "TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS").split(" ");
const RTMIN = 34, RTMAX = 64;

/** Number of a signal: `SIGQUIT`, `QUIT`, `3` or `SIGRTMIN+3`. */
function signalOf(text: string): number | undefined {
  const name = text.trim().toUpperCase().replace(/^SIG/, "");
  const [, base, sign, distance] = /^(RTMIN|RTMAX)(?:([+-])(\d{1,2}))?$/.exec(name) ?? [];
  const number = /^\d{1,2}$/.test(name)
    ? Number(name)
    : base
    ? (base === "RTMIN" ? RTMIN : RTMAX) + Number(distance ?? 0) * (sign === "-" ? -1 : 1)
    : SIGNALS.indexOf(name) + 1;
  return number >= 1 && number <= RTMAX ? number : undefined;
}
