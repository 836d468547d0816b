/** Problems found by `sbx verify`. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { dirname } from "node:path";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { sealAbandoned, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { copyLedger, execEvent, runSql, SESSION, withLedgerPath, writeEvents } from "../../helper/ledger.ts";

const TAMPERINGS: [string, string, number][] = [
  [
    "the event",
    "UPDATE entries SET event = replace(event, 'echo 7', 'echo 8') WHERE sequence = 8",
    8,
  ],
  ["an event's hash", "UPDATE entries SET hash = 'x' || substr(hash, 2) WHERE sequence = 4", 4],
  [
    "a previous hash",
    "UPDATE entries SET prev_hash = lower(hex(randomblob(32))) WHERE sequence = 2",
    2,
  ],
  ["an id", "UPDATE entries SET event_id = '000000000000' WHERE sequence = 6", 6],
  ["a type", "UPDATE entries SET event_type = 'dns.query' WHERE sequence = 6", 6],
  ["a decision without record", "UPDATE entries SET decision = 'allow' WHERE sequence = 3", 3],
  ["a missing event", "DELETE FROM entries WHERE sequence = 5", 5],
  [
    "two events swapped",
    "UPDATE entries SET sequence = CASE sequence WHEN 2 THEN -3 WHEN 3 THEN -2 END WHERE sequence IN (2, 3); UPDATE entries SET sequence = -sequence WHERE sequence < 0",
    2,
  ],
];
Deno.test("verify names the first bad event after tampering", (t) =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 10);
    for (const [what, statement, sequence] of TAMPERINGS) {
      await t.step(what, async () => {
        const copy = await copyLedger(path);
        await runSql(copy, statement);
        const { ok, events, first_bad } = await verifyLedger(copy);
        assertEquals([ok, events, first_bad?.sequence], [false, sequence - 1, sequence]);
      });
    }
  }));

Deno.test("verify finds a changed decision record", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent(), decision: { decision: "block", rule: { id: "r" } } });
    await ledger.close();
    await runSql(
      path,
      "UPDATE entries SET decision = 'allow', record = replace(record, 'block', 'allow')",
    );
    assertEquals((await verifyLedger(path)).first_bad?.sequence, 1);
  }));

Deno.test("verify names a missing event by its number", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 10);
    await runSql(path, "DELETE FROM entries WHERE sequence = 5");
    assertEquals((await verifyLedger(path)).first_bad, { sequence: 5, reason: "event 5 is missing" });
  }));

Deno.test("verify finds events cut off the end of a closed ledger", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 10);
    await runSql(path, "DELETE FROM entries WHERE sequence > 8");
    const { ok, events } = await verifyLedger(path);
    assertEquals([ok, events], [false, 8]);
  }));

/** Five events, and outcomes of the first three. */
const OUTCOMES = [{ duration_ms: 1 }, { decision: { decision: "block" } }, { error: "reset" }];
const OUTCOME_TAMPERINGS: [string, string, RegExp, event?: number][] = [
  [
    "an outcome",
    "UPDATE outcomes SET outcome = replace(outcome, 'reset', 'fine')",
    /hash does not match the outcome/,
    2,
  ],
  [
    "a decision column",
    "UPDATE outcomes SET decision = 'allow' WHERE number = 2",
    /column decision differs from the outcome/,
    1,
  ],
  [
    "an added decision",
    "UPDATE outcomes SET decision = 'allow' WHERE number = 1",
    /column decision differs/,
    0,
  ],
  [
    "its event",
    "UPDATE outcomes SET event_id = (SELECT event_id FROM entries WHERE sequence = 5) WHERE number = 1",
    /event_id differs from the outcome/,
  ],
  [
    "an outcome's hash",
    "UPDATE outcomes SET hash = 'x' || substr(hash, 2) WHERE number = 1",
    /hash does not match the outcome/,
    0,
  ],
  ["its place in the chain", "UPDATE outcomes SET prev_hash = 'x' WHERE number = 2", /prev_hash/, 1],
  ["the first outcome gone", "DELETE FROM outcomes WHERE number = 1", /outcome 1 is missing/],
  ["an outcome gone", "DELETE FROM outcomes WHERE number = 2", /outcome 2 is missing/],
  ["the last outcome gone", "DELETE FROM outcomes WHERE number = 3", /sealed with 3 outcomes and has 2/],
  ["all outcomes gone", "DELETE FROM outcomes", /sealed with 3 outcomes and has 0/],
  [
    "two outcomes swapped",
    "UPDATE outcomes SET number = -number WHERE number > 1; UPDATE outcomes SET number = 5 + number WHERE number < 0",
    /prev_hash/,
    2,
  ],
];
Deno.test("verify names a change of outcomes", (t) =>
  withLedgerPath(async (path) => {
    const events = await writeEvents(path, 5, OUTCOMES);
    for (const [what, statement, reason, event] of OUTCOME_TAMPERINGS) {
      await t.step(what, async () => {
        const copy = await copyLedger(path);
        await runSql(copy, statement);
        const { ok, first_bad, events: good } = await verifyLedger(copy);
        assertEquals([ok, good], [false, 5]);
        assertMatch(first_bad!.reason, reason);
        if (event !== undefined) assertEquals(first_bad?.event_id, events[event].common.event_id);
      });
    }
  }));

Deno.test("a ledger without a seal verifies as not sealed; sealed later, it proves its end", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 5, OUTCOMES);
    await Deno.remove(`${path}.seal`);
    assertEquals(await verifyLedger(path), { ok: true, events: 5, sealed: false });
    assertEquals(await sealAbandoned(path, SESSION), true);
    assertEquals(await verifyLedger(path), { ok: true, events: 5, sealed: true });
    assertEquals(await sealAbandoned(path, SESSION), false, "it has a seal");
    await runSql(path, "DELETE FROM outcomes WHERE number = 3");
    const { ok, sealed } = await verifyLedger(path);
    assertEquals([ok, sealed], [false, true]);
    assertEquals(await sealAbandoned(`${path}.none`, SESSION), false);
    assertEquals(
      await Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name).then((all) =>
        all.some((name) => name.includes("none"))
      ),
      false,
    );
  }));

Deno.test("failures of reading are not reported as failures of writing", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 400);
    const bytes = await Deno.readFile(path);
    await Deno.remove(`${path}.seal`);
    for (const size of [100, 5000, bytes.length - 3000]) {
      await Deno.writeFile(path, bytes.subarray(0, size));
      const { ok, first_bad } = await verifyLedger(path);
      assertEquals([ok, /written/.test(first_bad!.reason)], [false, false], `${size}: ${first_bad!.reason}`);
    }
    await Deno.remove(path);
    await Deno.mkdir(path);
    assertMatch((await assertRejects(() => verifyLedger(path))).message, /there is no ledger/);
  }));

const OTHER = "0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e";

Deno.test("a ledger of another session does not verify in the place of this one, whatever it says of itself", () =>
  withLedgerPath(async (path) => {
    const folder = `${dirname(path)}/${OTHER}`;
    await Deno.mkdir(folder);
    await writeEvents(path, 3, OUTCOMES);
    for (const end of ["", ".seal"]) await Deno.copyFile(path + end, `${folder}/session.db${end}`);
    assertMatch(
      (await verifyLedger(`${folder}/session.db`)).first_bad!.reason,
      /is that of session session-1, not of/,
    );
    assertMatch((await verifyLedger(path, OTHER)).first_bad!.reason, /is that of session session-1, not of/);
    await runSql(`${folder}/session.db`, `UPDATE ledger_info SET session_id = '${OTHER}'`);
    assertMatch(
      (await verifyLedger(`${folder}/session.db`)).first_bad!.reason,
      /the event is one of session/,
    );
  }));

Deno.test("an empty ledger with the seal of another session does not verify", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 0);
    await (await Ledger.open(`${path}.2`, { sessionId: OTHER })).close();
    await Deno.copyFile(`${path}.2.seal`, `${path}.seal`);
    assertMatch((await verifyLedger(path)).first_bad!.reason, /the seal is that of session/);
  }));
