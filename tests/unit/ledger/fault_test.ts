/** Ledgers that are full, locked, killed, damaged, or no ledgers. */
import { Database } from "../../../lib/ledger/database.ts";
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { Ledger, type LedgerDecision } from "../../../lib/ledger/mod.ts";
import { readEvents, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { limitChild } from "../../helper/child.ts";
import { execEvent, runSql, select, SESSION, withLedgerPath, writeEvents } from "../../helper/ledger.ts";

Deno.test("a full ledger fails closed, keeps every row that it took, and is sealed from its reserve", () =>
  withLedgerPath(async (path) => {
    const errors: SbxError[] = [];
    const maxBytes = 800_000;
    const ledger = await Ledger.open(path, {
      sessionId: SESSION,
      maxBytes,
      onError: (error) => errors.push(error),
    });
    let appended = 0;
    for (; appended < 2000 && !errors.length; appended++) {
      ledger.append({ event: execEvent("x".repeat(200)) });
      if (appended % 100 === 99) await ledger.flush().catch(() => {});
    }
    assertEquals(errors.map(({ code }) => code), ["ledger.unavailable"]);
    const refused = assertThrows(() => ledger.append({ event: execEvent() }), SbxError);
    assertEquals(refused.code, "ledger.unavailable");
    assertStringIncludes(refused.message, "its size limit is full");
    assertStringIncludes(refused.hint!, "ledger.max_size_mb");
    // What was allowed before ends, and what is refused is on record, for a quarter of the limit at most.
    const blocked = { decision: "block", rule: { id: "guard-ledger" } };
    let refusals = 0;
    const refuse = () => ledger.append({ event: execEvent(), decision: blocked });
    try {
      for (; refusals < 1000; refusals++) refuse();
    } catch (error) {
      assertEquals((error as SbxError).code, "ledger.unavailable");
    }
    assert(refusals > 10 && refusals < 1000, String(refusals));
    await assertRejects(() => ledger.flush(), SbxError);
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: appended + refusals, sealed: true });
    assert((await Deno.stat(path)).size <= maxBytes + 16_384);
  }));

Deno.test("a full ledger that was closed is opened again for reading and for its rest", () =>
  withLedgerPath(async (path) => {
    const options = { sessionId: SESSION, maxBytes: 500_000 };
    const ledger = await Ledger.open(path, options);
    for (let tries = 0; tries < 400; tries++) {
      try {
        ledger.append({ event: execEvent("x".repeat(1000)) });
        if (tries % 20 === 0) await ledger.flush();
      } catch {
        break;
      }
    }
    await ledger.close();
    const again = await Ledger.open(path, options);
    await assertRejects(() => again.flush(), SbxError, "its size limit is full");
    assertThrows(() => again.append({ event: execEvent() }), SbxError);
    await again.close();
    assertEquals((await verifyLedger(path)).ok, true);
  }));

Deno.test("a full ledger continues after its limit is raised, and stops after it is lowered", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION, maxBytes: 500_000 });
    let appended = 0;
    const fill = async (most: number) => {
      for (let tries = 0; tries < most; tries++) {
        try {
          ledger.append({ event: execEvent("x".repeat(1000)) });
          appended++;
          if (appended % 20 === 0) await ledger.flush();
        } catch {
          return false;
        }
      }
      return true;
    };
    assertEquals(await fill(2000), false);
    await assertRejects(() => ledger.flush(), SbxError);
    await ledger.limit(4_000_000);
    await ledger.flush();
    assertEquals(await fill(500), true);
    await ledger.limit(500_000);
    assertEquals(await fill(500), false, "a limit below the current size");
    await ledger.limit();
    await ledger.flush();
    assertEquals(await fill(500), true);
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: appended, sealed: true });
  }));

Deno.test("a ledger that could not write continues without a gap", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    ledger.append({ event: execEvent() });
    assertEquals((await assertRejects(() => ledger.flush(), SbxError)).code, "ledger.unavailable");
    assertThrows(() => ledger.append({ event: execEvent() }), SbxError);
    other.exec("ROLLBACK");
    other.close();
    await ledger.flush();
    ledger.append({ event: execEvent() });
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
  }));

Deno.test("a batch that fails half way is rolled back, and written completely later", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const first = execEvent();
    ledger.append({ event: first });
    await ledger.flush();
    await runSql(
      path,
      "CREATE TRIGGER broken BEFORE INSERT ON outcomes BEGIN SELECT RAISE(ABORT, 'broken'); END",
    );
    // Few enough to be sent at once: the thread may write what it has before more comes.
    const events = Array.from({ length: 90 }, () => execEvent());
    for (const event of events) ledger.append({ event });
    ledger.end({ event_id: first.common.event_id, duration_ms: 1 });
    assertEquals((await assertRejects(() => ledger.flush(), SbxError)).code, "ledger.unavailable");
    assertEquals((await select(path, "SELECT sequence FROM entries")).length, 1);
    assertThrows(() => ledger.end({ event_id: first.common.event_id }), SbxError);
    await runSql(path, "DROP TRIGGER broken");
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: 91, sealed: true });
    assertEquals((await readEvents(path)).events[0].outcome, { duration_ms: 1 });
  }));

Deno.test("a ledger closed while a reader is active verifies, then and later", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent() });
    await ledger.flush();
    const client = new Database(path);
    client.exec("BEGIN");
    await client.execute("SELECT count(*) FROM entries");
    ledger.append({ event: execEvent() });
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
    client.exec("ROLLBACK");
    client.close();
    await runSql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
    await runSql(path, "DELETE FROM entries WHERE sequence = 2");
    assertEquals((await verifyLedger(path)).ok, false);
  }));

/**
 * Script that appends until it is killed: events with outcomes, decisions and
 * findings, in batches of many sizes.
 */
const WRITER = `
const ledger = await Ledger.open(PATH, { sessionId: SESSION });
const finding = { rule_id: "r", severity: "low" };
for (let at = 0; ; at++) {
  const event = structuredClone(EVENT);
  const event_id = event.common.event_id = at.toString(16).padStart(12, "0");
  const decision = at % 3 ? { decision: "ask", rule: { id: "r" } } : undefined;
  const findings = at % 50 ? [] : [{ ...finding, event_id, finding_id: "finding-" + event_id }];
  ledger.append({ event, ...(decision && { decision }), findings });
  if (at % 2) ledger.end({ event_id, duration_ms: at, ...(decision && { decision: { decision: "block" } }) });
  if (at % 611 === 610) { await ledger.flush(); console.log(at); }
}`;

Deno.test("a ledger killed in the middle of batches with outcomes verifies, and continues", () =>
  withLedgerPath(async (path) => {
    const module = new URL("../../../lib/ledger/mod.ts", import.meta.url).href;
    const script = `import { Ledger } from ${JSON.stringify(module)};` +
      WRITER.replace("PATH", JSON.stringify(path)).replace("SESSION", JSON.stringify(SESSION))
        .replace("EVENT", JSON.stringify(execEvent()));
    const child = limitChild(new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        "--no-check",
        `--config=${new URL("../../../deno.json", import.meta.url).pathname}`,
        script,
      ],
      stdout: "piped",
      stderr: "inherit",
    }).spawn());
    const reader = child.stdout.getReader();
    await reader.read();
    await reader.read();
    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
    const { ok, events, first_bad } = await verifyLedger(path);
    assertEquals([ok, first_bad], [true, undefined]);
    assert(events >= 611);
    const [{ outcomes }] = await select(path, "SELECT count(*) AS outcomes FROM outcomes");
    assertEquals(outcomes, Math.floor(events / 2), "events and their outcomes are written together");
    await writeEvents(path, 2, [{ error: "x" }]);
    assertEquals(await verifyLedger(path), { ok: true, events: events + 2, sealed: true });
  }));

Deno.test("a ledger with a damaged last row is not opened for writing, and ends no process", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 3);
    await runSql(path, "UPDATE entries SET hash = CAST(x'ff61' AS TEXT) WHERE sequence = 3");
    const error = await assertRejects(() => Ledger.open(path, { sessionId: SESSION }), SbxError);
    assertEquals(error.code, "ledger.invalid");
    assertEquals((await verifyLedger(path)).first_bad?.sequence, 3);
  }));

Deno.test("a file that is no ledger is reported", () =>
  withLedgerPath(async (path) => {
    assertEquals((await assertRejects(() => verifyLedger(path), SbxError)).code, "ledger.not_found");
    await Deno.writeTextFile(path, "no database\n".repeat(400));
    assertEquals((await verifyLedger(path)).ok, false);
    assertEquals((await assertRejects(() => readEvents(path), SbxError)).code, "ledger.invalid");
    const open = (at: string) => assertRejects(() => Ledger.open(at, { sessionId: SESSION }), SbxError);
    assertEquals((await open(path)).code, "ledger.invalid");
    assertEquals((await open(`${path}/no/folder`)).code, "ledger.unavailable");
  }));

Deno.test("values without JSON are refused alone, and block nothing else", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const good = execEvent();
    ledger.append({ event: good });
    const valid = { finding_id: "f", event_id: good.common.event_id, rule_id: "r" };
    const finding = { ...valid, count: 1n };
    const unwritable = [
      () => ledger.append({ event: { ...execEvent(), extra: 1n } as Event }),
      () =>
        ledger.append({ event: execEvent(), decision: { decision: "allow", extra: 1n } as LedgerDecision }),
      () => ledger.append({ event: execEvent(), findings: [{ ...valid, finding_id: "g" }, finding] }),
      () => ledger.end({ event_id: good.common.event_id, response: 1n }),
      () => ledger.add({ findings: [finding] }),
    ];
    for (const write of unwritable) assertThrows(write, TypeError);
    ledger.append({ event: execEvent() });
    ledger.end({ event_id: good.common.event_id, duration_ms: 1 });
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
    assertEquals(await select(path, "SELECT * FROM findings"), []);
  }));
