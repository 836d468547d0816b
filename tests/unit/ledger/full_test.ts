/** The batch that rows wait in, and a ledger that has reached its size limit. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Batch } from "../../../lib/ledger/batch.ts";
import { refusalBytes } from "../../../lib/ledger/failure.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { BATCH_CHARS, BATCH_ROWS, insertSql } from "../../../lib/ledger/schema.ts";
import { execEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

const finding = (event_id: string) => ({ finding_id: "f", event_id, rule_id: "r" });

Deno.test("a batch counts its rows and their characters, and is full at a hundred rows or eight million characters", () => {
  const batch = new Batch();
  assert(batch.empty && !batch.full);
  const event = execEvent();
  const { event_id } = event.common;
  const bytes = new Uint8Array([1, 2, 3]);
  batch.addEvent({
    event,
    decision: { decision: "allow" },
    findings: [finding(event_id)],
    rows: [{ table: "body_blobs", bytes }, { table: "approvals", record: { ask_id: "a", event_id } }],
  });
  batch.addOutcome({ event_id, number: 1 });
  batch.addRows([finding(event_id)]);
  bytes[0] = 9;
  const { events, outcomes, findings, approvals, bodies, count, size } = batch.rows;
  assertEquals([events.length, outcomes.length, findings.length, approvals.length], [7, 4, 8, 3]);
  assertEquals(bodies, [{ bytes: new Uint8Array([1, 2, 3]), content_type: null }]);
  const texts = [events[3], events[6], outcomes[3], findings[3], findings[7], approvals[2]] as string[];
  assertEquals([count, size], [6, texts.reduce((sum, { length }) => sum + length, 3)]);
  for (let rows = count; rows < 99; rows++) batch.addOutcome({ event_id, number: rows });
  assert(!batch.full && !batch.empty);
  batch.addOutcome({ event_id, number: 99 });
  assert(batch.full);
  const large = new Batch();
  const room = BATCH_CHARS - JSON.stringify({ error: "", event_id, number: 1 }).length;
  large.addOutcome({ event_id, number: 1, error: "x".repeat(room - 1) });
  assert(!large.full);
  large.addRows([], [{ table: "body_blobs", bytes: new Uint8Array(1), content_type: "a/b" }]);
  assert(large.full);
  assertEquals([BATCH_ROWS, BATCH_CHARS], [500, 8 * 1024 * 1024]);
});

Deno.test("a statement inserts as many rows as it is given, and says what happens to those that exist", () => {
  const insert = { into: "t", columns: ["a", "b"] };
  assertEquals(insertSql(insert, 2), "INSERT INTO t (a,b) VALUES (?,?),(?,?)");
  assertEquals(insertSql({ ...insert, or: "IGNORE" }, 1), "INSERT OR IGNORE INTO t (a,b) VALUES (?,?)");
});

Deno.test("a full ledger takes blocks, ends and findings for half of its reserve, and nothing else", () =>
  withLedgerPath(async (path) => {
    const maxBytes = 1_600_000;
    const ledger = await Ledger.open(path, { sessionId: SESSION, maxBytes });
    const first = execEvent();
    ledger.append({ event: first });
    const full = await assertRejects(async () => {
      for (let at = 1;; at++) {
        ledger.append({ event: execEvent("x".repeat(1000)) });
        if (at % 20 === 0) await ledger.flush();
      }
    }, SbxError);
    assertEquals([full.code, full.message.endsWith("its size limit is full")], ["ledger.unavailable", true]);
    assertThrows(() => ledger.append({ event: execEvent(), decision: { decision: "allow" } }), SbxError);
    assertThrows(() => ledger.append({ event: execEvent() }), SbxError);
    // Each takes 5 to 10 KB of the reserve, with what a row takes in the file beyond its text.
    const { event_id } = first.common;
    const uses = [
      () => ledger.end({ event_id, error: "x".repeat(4000) }),
      () => ledger.append({ event: execEvent("x".repeat(4000)), decision: { decision: "block" } }),
      () => ledger.add({ findings: [{ ...finding(event_id), note: "x".repeat(4000) } as never] }),
    ];
    let taken = 0;
    assertThrows(() => {
      for (;; taken++) uses[taken % uses.length]();
    }, SbxError);
    const most = refusalBytes(maxBytes) / 4000;
    assert(taken > most / 3 && taken < most, `${taken} of at most ${most}`);
    await ledger.close();
  }));
