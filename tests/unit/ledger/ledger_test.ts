import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import {
  countFindings,
  readEvents,
  readFindings,
  readWhy,
  verifyLedger,
} from "../../../lib/ledger/read/mod.ts";
import { eventually } from "../../helper/sbx.ts";
import {
  execEvent,
  requestEvent,
  select,
  SESSION,
  withLedgerPath,
  writeEvents,
} from "../../helper/ledger.ts";

Deno.test("a ledger stores events in order, numbers them and verifies", () =>
  withLedgerPath(async (path) => {
    const events = await writeEvents(path, 1203);
    assertEquals(events.map(({ common }) => common.sequence), events.map((_, at) => at + 1));
    assertEquals(await verifyLedger(path), { ok: true, events: 1203, sealed: true });
    const first = await readEvents(path, { limit: 1000 });
    const second = await readEvents(path, { limit: 1000, cursor: first.next_cursor });
    assertEquals([...first.events, ...second.events], events);
    assertEquals(second.next_cursor, undefined);
  }));

Deno.test("events reach the disk by themselves, the later ones too", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    for (let count = 1; count <= 3; count++) {
      assertEquals(ledger.append({ event: execEvent() }), count);
      await eventually("the event is on the disk", async () =>
        (await readEvents(path, {})).events.length === count);
    }
    await ledger.close();
  }));

Deno.test("a reopened ledger continues its chain", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 3);
    const again = await writeEvents(path, 2);
    assertEquals(again.map(({ common }) => common.sequence), [4, 5]);
    assertEquals(await verifyLedger(path), { ok: true, events: 5, sealed: true });
  }));

Deno.test("a ledger refuses another session's events", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 1);
    const error = await assertRejects(() => Ledger.open(path, { sessionId: "another" }), SbxError);
    assertEquals(error.code, "ledger.conflict");
  }));

Deno.test("events are filtered by family, by denial and by time", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const blocked = execEvent("rm -rf /");
    const late = requestEvent("dns.query");
    late.common.timestamp_unix_ms += 5000;
    ledger.append({ event: execEvent() });
    ledger.append({ event: blocked, decision: { decision: "block", rule: { id: "no-rm" } } });
    ledger.append({ event: late, decision: { decision: "allow" } });
    await ledger.close();
    const ids = async (filter: Parameters<typeof readEvents>[1]) =>
      (await readEvents(path, filter)).events.map(({ common }) => common.event_id);
    assertEquals(await ids({ family: "dns" }), [late.common.event_id]);
    assertEquals(await ids({ denied: true }), [blocked.common.event_id]);
    assertEquals(await ids({ since: late.common.timestamp_unix_ms }), [late.common.event_id]);
    assertEquals((await readEvents(path, { denied: true })).events[0].rule_id, "no-rm");
    assertEquals(
      (await assertRejects(() => readEvents(path, { cursor: "x" }), SbxError)).code,
      "request.invalid",
    );
  }));

Deno.test("decisions, findings, approvals and bodies are stored with their event", () =>
  withLedgerPath(async (path) => {
    const event = execEvent();
    const { event_id } = event.common;
    const finding = { finding_id: `finding-${event_id}-r`, event_id, rule_id: "r", severity: "high" };
    const decision = { event_id, decision: "block", rule: { id: "r", layer: "corp" } };
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({
      event,
      decision,
      findings: [finding],
      rows: [{ table: "body_blobs", bytes: new Uint8Array([1, 2, 3]), content_type: "a/b" }],
    });
    ledger.add({ rows: [{ table: "approvals", record: { ask_id: "ask-1", event_id } }] });
    await ledger.close();
    assertEquals(await readWhy(path, event_id), { event, record: decision, findings: [finding] });
    assertEquals(await readFindings(path), [finding]);
    assertEquals(await countFindings(path), [{
      rule_id: "r",
      pack_id: "",
      match_count: 1,
      last_matched_event: event_id,
      last_matched_unix_ms: event.common.timestamp_unix_ms,
    }]);
    assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: true });
    assertEquals(
      (await assertRejects(() => readWhy(path, "0".repeat(12)), SbxError)).code,
      "event.not_found",
    );
  }));

Deno.test("the views of families show the fields of their events", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent("ls -l") });
    ledger.append({ event: requestEvent("dns.query") });
    await ledger.close();
    const rows = (table: string) => select(path, `SELECT * FROM ${table}`);
    const [exec] = await rows("exec_events");
    assertEquals([exec.sequence, exec.executable, exec.command, exec.argv], [
      1,
      "/bin/ls",
      "ls -l",
      '["ls","-l"]',
    ]);
    assertEquals((await rows("dns_events")).map(({ sequence, qname }) => [sequence, qname]), [[
      2,
      "example.com",
    ]]);
    for (
      const table of [
        "net_events",
        "model_calls",
        "mcp_calls",
        "fs_events",
        "substitution_events",
        "decisions",
      ]
    ) {
      assertEquals((await rows(table)).length, 0, table);
    }
  }));
