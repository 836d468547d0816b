/** Times of events as typed by people. */
import { SbxError } from "../../../lib/base/error/mod.ts";

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SPAN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?)?(Z|[+-]\d{2}:\d{2})?$/;

/** Moments that a time may be relative to, in unix `ms`. */
export interface Origins {
  now: number;
  /** of the session's first event */
  start(): Promise<number>;
}

/**
 * Reads the value of a time option: `10m` is ten minutes ago, `+90s` is 90 seconds after the session's first
 * event, and `2026-11-22` or `2026-11-22T10:30` is UTC unless it names a zone.
 *
 * @returns unix `ms`
 * @throws {SbxError} `usage.invalid`
 */
export async function readTime(option: string, text: string, { now, start }: Origins): Promise<number> {
  const span = SPAN.exec(text.replace(/^\+/, ""));
  if (span) {
    const ms = Math.round(Number(span[1]) * UNITS[span[2]]);
    return text.startsWith("+") ? await start() + ms : Math.max(0, now - ms);
  }
  const [, time, , , zone] = DATE.exec(text) ?? [];
  const ms = Date.parse(time && !zone ? `${text}Z` : text);
  if (DATE.test(text) && Number.isFinite(ms) && ms >= 0) return ms;
  throw new SbxError("usage.invalid", `invalid value "${text}" of --${option}`, {
    hint: "give 10m (ten minutes ago), +90s (after the session's first event) or 2026-11-22T10:30 (UTC)",
  });
}
