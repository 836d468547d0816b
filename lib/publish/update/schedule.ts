/** Schedule of update checks: `refresh_policy` of corp, manifest and profiles (docs/guides/updates.md). */

import { REFRESH_POLICY } from "../../config/corp/schema.ts";

/** Shortest and longest interval, and the default for hosts whose files name no interval, in `s`. */
const HOUR = 3600;
const INTERVAL_MIN = HOUR;
const INTERVAL_MAX = 30 * 24 * HOUR;
const INTERVAL = 24 * HOUR;
const UNITS: Record<string, number> = { m: 60, h: HOUR, d: 24 * HOUR };

/** Reads a policy such as `30m`, `24h` or `7d`, within the bounds; `off` is never. @returns undefined for other text */
export function parsePolicy(text: string): number | "off" | undefined {
  if (text === "off") return "off";
  const [, count, unit] = text.match(REFRESH_POLICY) ?? [];
  if (count === undefined) return undefined;
  return Math.min(Math.max(Number(count) * UNITS[unit], INTERVAL_MIN), INTERVAL_MAX);
}

/** Policies of a home: corp's alone if it exists, else the shortest of the others. */
export function intervalOf(corp: string | undefined, others: readonly string[]): number | "off" {
  const corps = corp === undefined ? undefined : parsePolicy(corp);
  if (corps !== undefined) return corps;
  const seconds = others.map(parsePolicy).filter((each) => typeof each === "number");
  return seconds.length > 0 ? Math.min(...seconds) : INTERVAL;
}

/** Spreads the checks of many hosts: nine to eleven tenths of the interval. @param random 0 to 1 */
export function jittered(seconds: number, random = Math.random()): number {
  return Math.round(seconds * (0.9 + 0.2 * random));
}
