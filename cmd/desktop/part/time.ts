/** Made once: each takes longer than a row. */
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const time = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** A moment in the words of the browser's language. */
export function dateOf(moment: string | number): string {
  return date.format(new Date(moment));
}

/** The time of day. */
export function timeOf(unixMs: number): string {
  return time.format(unixMs);
}
