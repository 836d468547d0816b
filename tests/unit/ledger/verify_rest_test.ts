/** Ledgers whose rear is checked by a second thread. */
import { assertEquals } from "@std/assert";
import { type Verification, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { copyLedger, runSql, withLedgerPath, writeEvents } from "../../helper/ledger.ts";

const EVENTS = 28_000, OUTCOMES = 24_000;

const TAMPERINGS: [string, string, number, string][] = [
  [
    "an event of the front",
    "UPDATE entries SET event = replace(event, 'echo 7', 'echo 8') WHERE sequence = 8",
    7,
    "the hash does not match the event",
  ],
  [
    "an event of the rear",
    "UPDATE entries SET event = replace(event, 'echo', 'Echo') WHERE sequence = 27000",
    26_999,
    "the hash does not match the event",
  ],
  [
    "the event before the rear with its hashes",
    "UPDATE entries SET hash = 'x' || substr(hash, 2) WHERE sequence = 16800; UPDATE entries SET prev_hash = 'x' || substr(prev_hash, 2) WHERE sequence = 16801",
    16_799,
    "the hash does not match the event",
  ],
  [
    "the hash that the rear follows",
    "UPDATE entries SET prev_hash = 'x' || substr(prev_hash, 2) WHERE sequence = 16801",
    16_800,
    "prev_hash is not the hash of the event before",
  ],
  [
    "an event that is gone from the rear",
    "DELETE FROM entries WHERE sequence = 20000",
    19_999,
    "event 20000 is missing",
  ],
  [
    "the event where the rear begins gone",
    "DELETE FROM entries WHERE sequence = 16800",
    16_799,
    "event 16800 is missing",
  ],
  [
    "an event of the rear and an outcome of the front",
    "UPDATE entries SET event_type = 'dns.query' WHERE sequence = 27000; DELETE FROM outcomes WHERE number = 3",
    26_999,
    "column event_type differs from the event",
  ],
  [
    "an outcome of the rear",
    "UPDATE outcomes SET outcome = replace(outcome, 'reset', 'fine') WHERE number = 23999",
    EVENTS,
    "the hash does not match the outcome",
  ],
];

Deno.test("a long ledger is checked by two threads, which find what one finds", (t) =>
  withLedgerPath(async (path) => {
    await writeEvents(path, EVENTS, Array(OUTCOMES).fill({ error: "reset" }));
    await t.step("unchanged", async () => {
      const report = { ok: true, events: EVENTS, sealed: true };
      assertEquals(await verifyOn(2, path), { report, threads: 1 });
      assertEquals(await verifyOn(1, path), { report, threads: 0 });
    });
    for (const [what, statement, good, reason] of TAMPERINGS) {
      await t.step(what, async () => {
        const copy = await copyLedger(path);
        await runSql(copy, statement);
        const { report } = await verifyOn(2, copy);
        assertEquals([report.ok, report.events, report.first_bad?.reason], [false, good, reason]);
        assertEquals((await verifyOn(1, copy)).report, report);
        await Deno.remove(copy);
      });
    }
    await t.step("a page of the rear that is no page", async () => {
      const copy = await copyLedger(path);
      using file = await Deno.open(copy, { read: true, write: true });
      const { size } = await file.stat();
      await file.seek(size * 0.7, Deno.SeekMode.Start);
      await file.write(new Uint8Array(100_000).fill(0xa5));
      const { report } = await verifyOn(2, copy);
      assertEquals([report.ok, report.events < EVENTS, report.events > EVENTS / 2], [false, true, true]);
      assertEquals((await verifyOn(1, copy)).report, report);
    });
  }));

/**
 * Verifies a ledger on a machine with this many processors.
 * @returns also the number of threads that it started
 */
async function verifyOn(
  processors: number,
  path: string,
): Promise<{ report: Verification; threads: number }> {
  const { Worker } = globalThis;
  let threads = 0;
  globalThis.Worker = class extends Worker {
    constructor(url: string | URL, options?: WorkerOptions) {
      super(url, options);
      threads++;
    }
  };
  Object.defineProperty(navigator, "hardwareConcurrency", { value: processors, configurable: true });
  try {
    return { report: await verifyLedger(path), threads };
  } finally {
    globalThis.Worker = Worker;
    Reflect.deleteProperty(navigator, "hardwareConcurrency");
  }
}
