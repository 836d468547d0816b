/** The clock of a guest, corrected by its host. */
import { assertEquals } from "@std/assert";
import { HostSleep } from "../../../lib/base/time/mod.ts";
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

  async readClock() {
    this.readings++;
    const answer = { slowMs: this.slowMs, errorMs: this.errorMs };
    await new Promise((resolve) => setTimeout(resolve, 0));
    return answer;
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
const onWake = () => {};
const SOON = { first: 1, again: 1, interval: 3_600_000 };

Deno.test("a clock that is off by more than the error of its reading is moved, and read again until it is right", async () => {
  const guest = new SlowGuest(-503.5);
  new GuestClock(guest, { isPaused: runs, onWake, times: SOON }).follow();
  await eventually("it is read again", () => guest.readings === 2);
  assertEquals(guest.shifts, [-503.5]);
});

Deno.test("an answer that took long moves nothing that it does not show, and is asked for again", async () => {
  const guest = new SlowGuest(80, 100);
  new GuestClock(guest, { isPaused: runs, onWake, times: SOON }).follow();
  await eventually("it is read again", () => guest.readings > 3);
  assertEquals(guest.shifts, []);
  guest.errorMs = 1;
  await eventually("it is moved", () => guest.shifts.length === 1);
});

Deno.test("a guest that was paused is moved at once; one that does not answer, or ends, holds nothing up", async () => {
  const guest = new SlowGuest(60_000);
  await new GuestClock(guest, { isPaused: runs, onWake }).resumed();
  assertEquals(guest.shifts, [60_000]);
  const silent = {
    ...guest,
    booted: () => Promise.resolve(),
    readClock: () => new Promise<never>(() => {}),
    shiftClock: () => Promise.resolve(),
  };
  await ends(new GuestClock(silent, { isPaused: runs, onWake, times: { resume: 5 } }).resumed());
  const ended = { ...silent, readClock: () => Promise.reject(new Error("gone")) };
  await ends(new GuestClock(ended, { isPaused: runs, onWake }).resumed());
  await ends(new GuestClock(ended, { isPaused: runs, onWake, times: SOON }).follow());
});

Deno.test("a guest that stands still is asked for nothing until it goes on", async () => {
  const guest = new SlowGuest(-503.5);
  let looks = 0;
  let isPaused = true;
  new GuestClock(guest, { isPaused: () => (looks++, isPaused), onWake, times: SOON }).follow();
  await eventually("it is looked at", () => looks > 3);
  assertEquals(guest.readings, 0);
  isPaused = false;
  await eventually("it is moved", () => guest.shifts.length === 1);
});

/** Clocks of a host that can be sent to sleep. */
class Host {
  wall = 1_700_000_000_000;
  running = 5_000;
  readonly sleep = new HostSleep(() => this.wall, () => this.running);

  sleeps(ms: number) {
    this.wall += ms;
  }

  works(ms: number) {
    this.wall += ms;
    this.running += ms;
  }
}

Deno.test("a host that works has not slept, however long; slewing of its clock is none either", () => {
  const host = new Host();
  host.works(86_400_000);
  assertEquals(host.sleep.look(), 0);
  host.sleeps(300);
  assertEquals(host.sleep.look(), 0);
  host.sleeps(3_600_000);
  assertEquals([host.sleep.look(), host.sleep.look()], [3_600_000, 0]);
  host.sleeps(-7_200_000);
  assertEquals(host.sleep.look(), -7_200_000);
});

Deno.test("after its host slept, a guest is right before it is served again, and the sleep is reported once", async () => {
  const host = new Host();
  const guest = new SlowGuest(0);
  const slept: number[] = [];
  const clock = new GuestClock(guest, { isPaused: runs, onWake: (ms) => slept.push(ms), sleep: host.sleep });
  await clock.corrected();
  assertEquals([guest.readings, slept], [0, []]);
  host.sleeps(3_600_000);
  guest.slowMs = 3_600_000;
  // Two connections at once wait for the same correction.
  await Promise.all([clock.corrected(), clock.corrected()]);
  assertEquals([guest.shifts, guest.readings, slept], [[3_600_000], 2, [3_600_000]]);
});

Deno.test("corrections that meet move the clock once", async () => {
  const guest = new SlowGuest(60_000);
  const clock = new GuestClock(guest, { isPaused: runs, onWake });
  await Promise.all([clock.resumed(), clock.resumed(), clock.resumed()]);
  assertEquals(guest.shifts, [60_000]);
});

Deno.test("a guest that stands still when its host wakes is asked for nothing; the sleep is reported", async () => {
  const host = new Host();
  const guest = new SlowGuest(0);
  const slept: number[] = [];
  const clock = new GuestClock(guest, {
    isPaused: () => true,
    onWake: (ms) => slept.push(ms),
    sleep: host.sleep,
  });
  host.sleeps(60_000);
  await clock.corrected();
  assertEquals([guest.readings, slept], [0, [60_000]]);
});

Deno.test("sleep is found without any connection of the guest", async () => {
  const host = new Host();
  const guest = new SlowGuest(0);
  const slept: number[] = [];
  const times = { ...SOON, look: 5 };
  const onWake = (ms: number) => slept.push(ms);
  new GuestClock(guest, { isPaused: runs, onWake, times, sleep: host.sleep }).follow();
  await eventually("the first reading", () => guest.readings === 1);
  host.sleeps(60_000);
  guest.slowMs = 60_000;
  await eventually("it is moved", () => guest.shifts.length === 1);
  assertEquals(slept, [60_000]);
  guest.isOver = true;
});
