/** The clock of a guest, corrected by its host. */
import { assertEquals } from "@std/assert";
import { GuestClock } from "../../../lib/session/clock.ts";
import { eventually } from "../../helper/sbx.ts";

/** A guest whose clock is slow, and whose answers take their time. */
class SlowGuest {
  readonly shifts: number[] = [];
  readings = 0;
  isOver = false;
  slowMs: number;
  errorMs: number;

  constructor(slowMs: number, errorMs = 2) {
    this.slowMs = slowMs;
    this.errorMs = errorMs;
  }

  booted() {
    return Promise.resolve();
  }

  readClock() {
    this.readings++;
    return Promise.resolve({ slowMs: this.slowMs, errorMs: this.errorMs });
  }

  shiftClock(ms: number) {
    this.shifts.push(ms);
    this.slowMs -= ms;
    return Promise.resolve();
  }
}

/** Waits for the end of something whose timers keep no program alive. */
async function ends(over: Promise<unknown>): Promise<void> {
  let isOver = false;
  over.then(() => isOver = true);
  await eventually("it ends", () => isOver);
}

const runs = () => false;
const SOON = { first: 1, again: 1, interval: 3_600_000 };

Deno.test("a clock that is off by more than the error of its reading is moved, and read again until it is right", async () => {
  const guest = new SlowGuest(-503.5);
  new GuestClock(guest, runs, SOON).follow();
  await eventually("it is read again", () => guest.readings === 2);
  assertEquals(guest.shifts, [-503.5]);
});

Deno.test("an answer that took long moves nothing that it does not show, and is asked for again", async () => {
  const guest = new SlowGuest(80, 100);
  new GuestClock(guest, runs, SOON).follow();
  await eventually("it is read again", () => guest.readings > 3);
  assertEquals(guest.shifts, []);
  guest.errorMs = 1;
  await eventually("it is moved", () => guest.shifts.length === 1);
});

Deno.test("a guest that was paused is moved at once; one that does not answer, or ends, holds nothing up", async () => {
  const guest = new SlowGuest(60_000);
  await new GuestClock(guest, runs).resumed();
  assertEquals(guest.shifts, [60_000]);
  const silent = {
    ...guest,
    booted: () => Promise.resolve(),
    readClock: () => new Promise<never>(() => {}),
    shiftClock: () => Promise.resolve(),
  };
  await ends(new GuestClock(silent, runs, { resume: 5 }).resumed());
  const ended = { ...silent, readClock: () => Promise.reject(new Error("gone")) };
  await ends(new GuestClock(ended, runs).resumed());
  await ends(new GuestClock(ended, runs, SOON).follow());
});

Deno.test("a guest that stands still is asked for nothing until it goes on", async () => {
  const guest = new SlowGuest(-503.5);
  let looks = 0;
  let isStill = true;
  new GuestClock(guest, () => (looks++, isStill), SOON).follow();
  await eventually("it is looked at", () => looks > 3);
  assertEquals(guest.readings, 0);
  isStill = false;
  await eventually("it is moved", () => guest.shifts.length === 1);
});
