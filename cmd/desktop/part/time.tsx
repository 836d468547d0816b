import { signal } from "@preact/signals";
import { agoOf, exactOf } from "./ago.ts";

/** `ms` between two looks at the clock. */
const TICK_MS = 15_000;

/** The time by which pages are drawn: every moment on a page moves on together. */
export const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), TICK_MS);

/** A moment, how long ago; the exact one is its title. */
export function When({ at }: { at: string | number }) {
  return <time dateTime={new Date(at).toISOString()} title={exactOf(at)}>{agoOf(at, now.value)}</time>;
}
