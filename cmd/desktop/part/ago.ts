/** Moments as their distance from now, and exactly. */

/** Made once: each takes longer than a row. */
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

const MINUTE_MS = 60_000, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS;
/** Days after which a date says more than their number. */
const DAYS_MAX = 7;

/** A moment with its weekday and its time zone. */
export function exactOf(moment: string | number): string {
  return exact.format(new Date(moment));
}

/** A moment as its distance from `now`; a week away and more as its date. */
export function agoOf(moment: string | number, now: number): string {
  const at = new Date(moment).getTime();
  const away = at - now;
  const size = Math.abs(away);
  if (size < MINUTE_MS) return relative.format(0, "second");
  if (size < HOUR_MS) return relative.format(Math.trunc(away / MINUTE_MS), "minute");
  if (size < DAY_MS) return relative.format(Math.trunc(away / HOUR_MS), "hour");
  if (size < DAYS_MAX * DAY_MS) return relative.format(Math.trunc(away / DAY_MS), "day");
  const isThisYear = new Date(at).getFullYear() === new Date(now).getFullYear();
  return (isThisYear ? day : dayOfYear).format(at);
}
