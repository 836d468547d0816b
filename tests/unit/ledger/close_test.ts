/** Ledgers that fail, close, or are closed while they fail. */
import { assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { execEvent, runSql, SESSION, withLedgerPath, writeEvents } from "../../helper/ledger.ts";

/** Makes every write of events fail, and repairs that. */
const BREAK = "CREATE TRIGGER broken BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'broken'); END";
const REPAIR = "DROP TRIGGER broken";

Deno.test("a failure is told once, and again only after a flush that succeeded", () =>
  withLedgerPath(async (path) => {
    const told: string[] = [];
    const ledger = await Ledger.open(path, { sessionId: SESSION, onError: ({ code }) => told.push(code) });
    for (let round = 1; round <= 2; round++) {
      await runSql(path, BREAK);
      ledger.append({ event: execEvent() });
      for (let tries = 0; tries < 3; tries++) {
        assertEquals((await assertRejects(() => ledger.flush(), SbxError)).code, "ledger.unavailable");
      }
      assertThrows(() => ledger.requireWritable(), SbxError, "cannot be written");
      assertThrows(() => ledger.append({ event: execEvent(), decision: { decision: "block" } }), SbxError);
      assertThrows(() => ledger.add({ rows: [] }), SbxError);
      assertEquals(told, Array(round).fill("ledger.unavailable"));
      await runSql(path, REPAIR);
      await ledger.flush();
      ledger.requireWritable();
      assertEquals(ledger.sequence, round);
    }
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
  }));

Deno.test("rows that no longer reach the disk are not sealed: the close fails, and the ledger can be continued", () =>
  withLedgerPath(async (path) => {
    const told: string[] = [];
    const ledger = await Ledger.open(path, { sessionId: SESSION, onError: ({ code }) => told.push(code) });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    await runSql(path, BREAK);
    ledger.append({ event: execEvent() });
    const error = await assertRejects(() => ledger.close(), SbxError);
    assertEquals([error.code, told], ["ledger.unavailable", ["ledger.unavailable"]]);
    await assertRejects(() => ledger.close(), SbxError);
    await runSql(path, REPAIR);
    assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: false });
    await writeEvents(path, 1);
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
  }));

Deno.test("a closed ledger takes nothing, and is closed once", () =>
  withLedgerPath(async (path) => {
    const event = execEvent();
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event });
    const closing = ledger.close();
    assertStrictEquals(ledger.close(), closing);
    await closing;
    for (
      const write of [
        () => ledger.append({ event: execEvent() }),
        () => ledger.end({ event_id: event.common.event_id }),
        () => ledger.add({}),
      ]
    ) {
      assertEquals(assertThrows(write, SbxError).message, `the ledger ${path} is closed`);
    }
    await assertRejects(() => ledger.flush(), SbxError, "closed");
    await assertRejects(() => ledger.limit(), SbxError, "closed");
    assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: true });
  }));

Deno.test("what comes in while a ledger is closing is written too", () =>
  withLedgerPath(async (path) => {
    const event = execEvent();
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event });
    const closing = ledger.close();
    ledger.end({ event_id: event.common.event_id, error: "the VM stopped" });
    ledger.end({ event_id: event.common.event_id, error: "again" });
    await closing;
    assertEquals((await readEvents(path)).events[0].outcome, { error: "the VM stopped" });
    assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: true });
  }));

Deno.test("an open ledger has no seal", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 1);
    await using _ = await Ledger.open(path, { sessionId: SESSION });
    assertEquals((await verifyLedger(path)).sealed, false);
  }));
