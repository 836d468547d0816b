import type { Arguments } from "./arguments.ts";
import type { Option } from "./command.ts";

const DAY_MS = 86_400_000;
/** Longest look back, in days: a century. */
const DAYS_MAX = 36_500;

/** The option `--days`. @param fallback days without it; absent: all */
export function daysOption(fallback?: number): Option {
  return { name: "days", value: "N", about: `look back this long; default ${fallback ?? "all"}` };
}

/**
 * Reads `--days`.
 *
 * @returns Unix `ms` of the time that many days ago; `undefined`: neither option nor fallback
 * @throws {SbxError} `usage.invalid`
 */
export function sinceOf(args: Arguments, fallback: number): number;
export function sinceOf(args: Arguments, fallback?: number): number | undefined;
export function sinceOf(args: Arguments, fallback?: number): number | undefined {
  const days = args.number("days", { min: 1, max: DAYS_MAX }) ?? fallback;
  return days === undefined ? undefined : Date.now() - days * DAY_MS;
}
