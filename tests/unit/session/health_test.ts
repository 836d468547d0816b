/** A machine that pauses while its record or its disk cannot be written, also while its guest is away. */
import { assertEquals, assertRejects } from "@std/assert";
import type { MachineInfo } from "../../../lib/session/ipc/mod.ts";
import { type DiskReserve, SessionHealth } from "../../../lib/session/health.ts";

/** A machine that is being written down, until `written`, and whose guest is away until `back`. */
function machine(initial: MachineInfo["state"] = "Running") {
  const away = Promise.withResolvers<void>();
  const writing = Promise.withResolvers<void>();
  const calls: string[] = [];
  const report = {
    info: { state: initial, boot_stages: [], pid: 1 } as MachineInfo,
    keep(change: Partial<MachineInfo>) {
      report.info = { ...report.info, ...change };
      return Promise.resolve();
    },
  };
  let isAway = true, isHeld = false, isHeldAtResume = false;
  const health = new SessionHealth({
    name: "dev",
    disk: Deno.execPath(),
    report,
    absence: () => ({ over: away.promise, written: writing.promise, isAway }),
    pause: () => Promise.resolve(void calls.push("pause")),
    resume: () => {
      calls.push("resume");
      isHeld ||= isHeldAtResume;
      return Promise.resolve();
    },
    isHeld: () => isHeld,
    requireAnswer: () => Promise.resolve(void calls.push("answer")),
    reserve: { held: false, take: () => Promise.resolve() } as unknown as DiskReserve,
  });
  const back = () => {
    isAway = false;
    away.resolve();
  };
  const seen = () => [calls, report.info.state];
  const hold = () => isHeld = true;
  /** its guest does at once what a finding follows from */
  const holdAtResume = () => isHeldAtResume = true;
  return { health, calls, report, written: writing.resolve, back, hold, holdAtResume, seen };
}

const FULL = new Error("the ledger is full");
/** What is said of the guest's disk; the test's own has room at the first look. */
const NO_ROOM = `the host has no space left for the guest's disk ${Deno.execPath()}`;

/** Lets everything happen that waits for nothing else. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 10));

Deno.test("a machine whose guest is away is paused for its record when the guest is back", async () => {
  const { health, seen, back, written } = machine();
  const failing = health.ledgerFailed(FULL, true);
  written();
  await settle();
  assertEquals(seen(), [[], "Running"]);
  back();
  await failing;
  assertEquals(seen(), [["pause"], "Paused"]);
  await health.ledgerRecovered();
  assertEquals(seen(), [["pause", "resume"], "Running"]);
});

Deno.test("it is not paused when the record was written meanwhile, nor when the machine has gone", async () => {
  const recovered = machine();
  const failing = recovered.health.ledgerFailed(FULL, true);
  await recovered.health.ledgerRecovered();
  recovered.back();
  await failing;
  assertEquals(recovered.seen(), [[], "Running"]);
  const gone = machine();
  const late = gone.health.ledgerFailed(FULL, true);
  gone.report.keep({ state: "Suspended" });
  gone.back();
  await late;
  assertEquals(gone.seen(), [[], "Suspended"]);
});

Deno.test("one that the hypervisor stopped while it was written down goes on when that has ended", async () => {
  const { health, seen, written, back } = machine();
  const full = health.diskFull();
  // Whoever needs the guest learns that it cannot come back yet.
  assertEquals(seen(), [[], "Paused"]);
  await assertRejects(() => health.present(), Error, "is paused: the host has no space left");
  await settle();
  assertEquals(seen(), [[], "Paused"]);
  written();
  await full;
  // Its vsock may be dead: that is found out, rather than that every later request hangs.
  assertEquals(seen(), [["resume", "answer"], "Running"]);
  back();
  await health.present();
});

Deno.test("one that the hypervisor stopped while it boots goes on too", async () => {
  const { health, seen, back } = machine("Booting");
  back();
  await health.diskFull();
  assertEquals(seen(), [["resume"], "Booting"]);
});

Deno.test("one full disk is both problems: each is told, until the last is over", async () => {
  const { health, report, seen, back, written } = machine();
  back();
  written();
  await health.ledgerFailed(FULL, true);
  const full = health.diskFull();
  assertEquals(report.info.last_error, `the ledger is full; ${NO_ROOM}`);
  await assertRejects(() => health.present(), Error, `is paused: the ledger is full; ${NO_ROOM}`);
  await full;
  assertEquals([report.info.last_error, report.info.state], ["the ledger is full", "Paused"]);
  await health.ledgerRecovered();
  assertEquals([report.info.last_error, seen()], [undefined, [["pause", "resume"], "Running"]]);
});

Deno.test("a ledger that may lack rows does not hide the full disk, and is told of when that is over", async () => {
  const { health, report, back, written } = machine();
  back();
  written();
  const full = health.diskFull();
  await health.ledgerFailed(FULL, false);
  assertEquals([report.info.last_error, report.info.state], [`the ledger is full; ${NO_ROOM}`, "Paused"]);
  await full;
  assertEquals([report.info.last_error, report.info.state], ["the ledger is full", "Running"]);
});

Deno.test("whoever waits for a program of a machine that a finding stops is informed of it", async () => {
  const { health } = machine();
  const said: string[] = [];
  const output = (_: string, data: string) => Promise.resolve(void said.push(atob(data)));
  const program = Promise.withResolvers<void>();
  const over = health.notifying({ output, input: () => Promise.resolve(null) }, program.promise);
  health.keepPaused('"dev": a finding holds it back (sbx lift dev lifts it)');
  assertEquals(said, ['sbx: "dev": a finding holds it back (sbx lift dev lifts it)\n']);
  program.resolve();
  await over;
  health.keepPaused("again");
  assertEquals(said.length, 1);
});

Deno.test("one that a finding holds back does not go on when its own problem ends", async () => {
  for (const isLate of [false, true]) {
    const { health, seen, back, written, hold } = machine();
    back();
    if (!isLate) hold();
    await health.ledgerFailed(FULL, true);
    if (isLate) hold();
    written();
    await health.ledgerRecovered();
    assertEquals(seen(), [["pause"], "Paused"]);
  }
});

Deno.test("one that a finding meets while it goes on again is paused, since the finding has seen it paused", async () => {
  const { health, seen, back, written, holdAtResume } = machine();
  back();
  written();
  holdAtResume();
  await health.ledgerFailed(FULL, true);
  await health.ledgerRecovered();
  assertEquals(seen(), [["pause", "resume", "pause"], "Paused"]);
});
