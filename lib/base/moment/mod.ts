/**
 * Times as people give them: `14:05`, `2h ago`, `yesterday 14:05`; local unless they end in Z or an offset
 */
import { SbxError } from "../error/mod.ts";

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SPAN = /^(\+?)(\d+(?:\.\d+)?) ?(ms|s|m|h|d)( ago)?$/;
const CLOCK = String.raw`(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?`;
const ZONE = String.raw`(Z|[+-](?:0\d|1[0-4]):[0-5]\d)?`;
const DAY = new RegExp(String.raw`^(today|yesterday)(?:[ T]${CLOCK})?${ZONE}$`);
const DATE = new RegExp(String.raw`^(\d{4})-(\d{2})-(\d{2})(?:[ T]${CLOCK})?${ZONE}$`);
const TIME = new RegExp(`^${CLOCK}${ZONE}$`);

const FORMS =
  "give 10m or 2h ago, 14:05, yesterday 14:05, 2026-11-22 or 2026-11-22T10:30; local time unless it ends in Z";

/** Moments that a time may be relative to, in unix `ms`. */
export interface Origins {
  now: number;
  /** of the session's first event; absent: `+90s` is refused */
  start?(): Promise<number>;
}

/**
 * Reads the value of a time option.
 *
 * @returns unix `ms`
 * @throws {SbxError} `usage.invalid`
 */
export async function readMoment(option: string, text: string, { now, start }: Origins): Promise<number> {
  const span = SPAN.exec(text);
  if (span) {
    const [, plus, amount, unit, ago] = span;
    const ms = Math.round(Number(amount) * UNITS[unit]);
    if (!plus) return Math.max(0, now - ms);
    if (start && !ago) return await start() + ms;
  }
  const all = text === "now" ? [now] : clockOf(text, now);
  // Where a clock is put back a time comes twice: the period has both.
  const ms = all?.at(option === "until" ? -1 : 0);
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return ms;
  throw new SbxError("usage.invalid", `invalid value "${text}" of --${option}`, {
    hint: start ? `${FORMS}; +90s is after the session's first event` : FORMS,
  });
}

/** The moments of a time by the clock, the earliest first. */
function clockOf(text: string, now: number): number[] | undefined {
  const date = DATE.exec(text);
  if (date) return momentsOf([Number(date[1]), Number(date[2]), Number(date[3])], date.slice(4));
  const day = DAY.exec(text);
  if (day) return momentsOf(dayOf(now, day.at(-1), day[1] === "yesterday" ? 1 : 0), day.slice(2));
  const time = TIME.exec(text);
  if (!time) return undefined;
  const today = momentsOf(dayOf(now, time.at(-1), 0), time.slice(1));
  const past = today?.filter((moment) => moment <= now);
  // At 09:00, 14:05 was yesterday.
  return past?.length === 0 ? momentsOf(dayOf(now, time.at(-1), 1), time.slice(1)) : past;
}

type Day = [year: number, month: number, day: number];

function dayOf(now: number, zone: string | undefined, before: number): Day {
  if (zone === undefined) {
    const date = new Date(now);
    const day = new Date(date.getFullYear(), date.getMonth(), date.getDate() - before);
    return [day.getFullYear(), day.getMonth() + 1, day.getDate()];
  }
  const day = new Date(now + offsetOf(zone) - before * UNITS.d);
  return [day.getUTCFullYear(), day.getUTCMonth() + 1, day.getUTCDate()];
}

/** @param rest hours, minutes, seconds, fraction and zone */
function momentsOf([year, month, day]: Day, rest: (string | undefined)[]): number[] | undefined {
  const [hour = "0", minute = "0", second = "0", fraction = "0", zone] = rest;
  const parts = [year, month - 1, day, Number(hour), Number(minute), Number(second)] as const;
  const utc = new Date(Date.UTC(...parts));
  const read = [utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate(), utc.getUTCHours()];
  // A part that is too great would count on: February 30 is no day.
  if (read.some((part, at) => part !== parts[at]) || parts[4] > 59 || parts[5] > 59) return undefined;
  const moments = zone === undefined ? localMoments(utc.getTime()) : [utc.getTime() - offsetOf(zone)];
  return moments.map((moment) => moment + Number(fraction.padEnd(3, "0")));
}

/**
 * The moments at which a local clock shows a time: two in the hour that comes again when the clock is put
 * back. For a time that the clock skips: by the offset before, and by the one after.
 *
 * @param clock the time as if it were UTC
 */
function localMoments(clock: number): number[] {
  const offsets = new Set([-UNITS.d, UNITS.d].map((by) => new Date(clock + by).getTimezoneOffset()));
  const moments = [...offsets].map((offset) => clock + offset * UNITS.m).sort((one, other) => one - other);
  const shown = moments.filter((moment) => moment - new Date(moment).getTimezoneOffset() * UNITS.m === clock);
  return shown.length > 0 ? shown : moments;
}

function offsetOf(zone: string): number {
  if (zone === "Z") return 0;
  const [hours, minutes] = zone.slice(1).split(":").map(Number);
  return (zone[0] === "-" ? -1 : 1) * (hours * UNITS.h + minutes * UNITS.m);
}

/** `2026-11-22 14:05:07.123`, in local time. */
export function localTime(ms: number): string {
  const offset = new Date(ms).getTimezoneOffset();
  return new Date(ms - offset * UNITS.m).toISOString().slice(0, 23).replace("T", " ");
}

/** The zone of local times at a moment: `UTC`, `UTC+02:00`. */
export function zoneOf(ms: number): string {
  const east = -new Date(ms).getTimezoneOffset();
  if (east === 0) return "UTC";
  const two = (part: number) => String(part).padStart(2, "0");
  const minutes = Math.abs(east);
  return `UTC${east < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}
