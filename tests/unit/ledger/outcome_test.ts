/** Outcomes: a chain of their own, merged with the events by readers. */
import { assertEquals } from "@std/assert";
import type { Event, EventType } from "../../../lib/event/mod.ts";
import { Ledger, type LedgerOutcome } from "../../../lib/ledger/mod.ts";
import { readEvents, readFindingRows, readWhy, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { execEvent, requestEvent, select, SESSION, withLedgerPath } from "../../helper/ledger.ts";

/** Writes a ledger of one event with a decision and some outcomes. */
async function writeOutcomes(
  path: string,
  event: Event,
  decision: string,
  ...outcomes: Partial<LedgerOutcome>[]
) {
  const { event_id } = event.common;
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  ledger.append({ event, decision: { decision, rule: { id: "first" } } });
  for (const outcome of outcomes) ledger.end({ ...outcome, event_id });
}

const HTTP_RESPONSE = {
  status: 200,
  bytes: 12,
  headers: { etag: ["x"] },
  body: { state: "missing", truncated: false },
};

Deno.test("readers put the response into the event, and the outcome beside it", () =>
  withLedgerPath(async (path) => {
    const event = requestEvent("http.request");
    await writeOutcomes(
      path,
      event,
      "allow",
      { response: HTTP_RESPONSE, duration_ms: 7.5 } as Partial<LedgerOutcome>,
    );
    const { events: [read] } = await readEvents(path);
    assertEquals(
      read,
      {
        ...event,
        http: { ...event.http!, response: HTTP_RESPONSE },
        decision: "allow",
        rule_id: "first",
        outcome: { duration_ms: 7.5 },
      } as unknown as typeof read,
    );
    const why = await readWhy(path, event.common.event_id);
    assertEquals([why.event.http?.response?.status, why.record?.decision], [200, "allow"]);
    assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: true });
  }));

Deno.test("an event without an outcome is read as it was appended", () =>
  withLedgerPath(async (path) => {
    const event = requestEvent("http.request");
    await writeOutcomes(path, event, "allow");
    const { events } = await readEvents(path);
    assertEquals(events as unknown[], [{ ...event, decision: "allow", rule_id: "first" }]);
  }));

Deno.test("a response that the event has already stays where the outcome has none", () =>
  withLedgerPath(async (path) => {
    const event = requestEvent("http.request");
    Object.assign(event.http!, { response: HTTP_RESPONSE });
    await writeOutcomes(path, event, "allow", { duration_ms: 1 });
    const { events: [read] } = await readEvents(path);
    assertEquals(read.http as unknown, event.http);
    assertEquals((await readWhy(path, event.common.event_id)).event, event);
  }));

/** Decision of the event, of its outcome, and the final one. */
const DECISIONS: [first: string, later: string | undefined, final: string, denied: boolean][] = [
  ["ask", "allow", "allow", false],
  ["ask", "block", "block", true],
  ["ask", undefined, "ask", false],
  ["allow", "block", "block", true],
  ["allow", undefined, "allow", false],
  ["block", undefined, "block", true],
  ["block", "allow", "allow", false],
];
Deno.test("the decision of an outcome is final, for every reader", (t) =>
  withLedgerPath(async (path) => {
    const events = DECISIONS.map(() => requestEvent("http.request"));
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (const [at, [first, later]] of DECISIONS.entries()) {
        ledger.append({ event: events[at], decision: { decision: first, rule: { id: "first" } } });
        const decision = { decision: later!, rule: { id: "second", layer: "corp", reason: "later" } };
        ledger.end({ event_id: events[at].common.event_id, ...(later && { decision }), error: "x" });
      }
    }
    const listed = (await readEvents(path)).events;
    const blocked = (await readEvents(path, { denied: true })).events.map(({ common }) => common.event_id);
    const views = ["security_events", "decisions", "net_events"];
    const rows = await Promise.all(
      views.map((view) => select(path, `SELECT decision, rule_id FROM ${view} ORDER BY sequence`)),
    );
    for (const [at, [first, later, final, denied]] of DECISIONS.entries()) {
      await t.step(`${first}, then ${later ?? "nothing"}, is ${final}`, async () => {
        const { event_id } = events[at].common;
        const expected = [final, later ? "second" : "first"];
        assertEquals([listed[at].decision, listed[at].rule_id], expected);
        assertEquals(blocked.includes(event_id), denied);
        const { record } = await readWhy(path, event_id);
        assertEquals([record?.decision, record?.rule?.id], expected);
        for (const [view, { [at]: row }] of rows.entries()) {
          assertEquals([row.decision, row.rule_id], expected, views[view]);
        }
      });
    }
  }));

/** View, event type, response, and the resulting columns. */
const VIEWS: [string, EventType, unknown, Record<string, unknown>][] = [
  [
    "net_events",
    "http.request",
    { ...HTTP_RESPONSE, status: 503 },
    { method: "GET", host: "api.example.com", port: 443, status: 503, response_bytes: 12 },
  ],
  [
    "dns_events",
    "dns.query",
    { rcode: "NOERROR", answers: ["192.0.2.1"] },
    { qname: "example.com", qtype: "A", rcode: "NOERROR", answers: '["192.0.2.1"]' },
  ],
  [
    "mcp_calls",
    "mcp.tool_call",
    { is_error: true, content: [{ type: "text", text: "no" }] },
    { server_name: "files", tool_name: "read", is_error: 1, content: '[{"text":"no","type":"text"}]' },
  ],
  [
    "model_calls",
    "model.call",
    { status: 200, stop_reason: "end_turn", input_tokens: 10, output_tokens: 3, estimated_cost_micros: 42 },
    { model: "m-1", stream: 0, status: 200, input_tokens: 10, output_tokens: 3, estimated_cost_micros: 42 },
  ],
];
for (const [view, type, response, columns] of VIEWS) {
  Deno.test(`${view} shows the response of the event or of its outcome, and the times`, () =>
    withLedgerPath(async (path) => {
      const known = requestEvent(type);
      const [family] = type.split(".") as ["http"];
      Object.assign(known[family]!, { response });
      await writeOutcomes(path, requestEvent(type), "allow", { response, first_byte_ms: 2, duration_ms: 31 });
      await writeOutcomes(path, known, "allow", { duration_ms: 32, error: "reset" });
      await writeOutcomes(path, requestEvent("file.activity"), "allow");
      const rows = await select(path, `SELECT * FROM ${view} ORDER BY sequence`);
      const picked = rows.map((row) =>
        Object.fromEntries(Object.keys(columns).map((name) => [name, row[name]]))
      );
      assertEquals(picked, [columns, columns]);
      assertEquals(
        rows.map(({ first_byte_ms, duration_ms, error }) => [first_byte_ms, duration_ms, error]),
        [[2, 31, null], [null, 32, "reset"]],
      );
    }));
}

Deno.test("the first outcome of an event counts: later ones are stored, block nothing and change nothing", () =>
  withLedgerPath(async (path) => {
    const event = requestEvent("http.request");
    const blocked = { decision: { decision: "block", rule: { id: "second" } } };
    await writeOutcomes(path, event, "ask", blocked, { response: HTTP_RESPONSE }, { error: "thrice" });
    {
      // In a later batch, after the ledger was reopened.
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.end({ event_id: event.common.event_id, decision: { decision: "allow" } });
      await ledger.flush();
      ledger.append({ event: execEvent() });
    }
    assertEquals(await verifyLedger(path), { ok: true, events: 2, sealed: true });
    const { events } = await readEvents(path);
    assertEquals(events.map(({ decision, http }) => [decision, http?.response]), [
      ["block", undefined],
      [undefined, undefined],
    ]);
    const [{ total }] = await select(path, "SELECT count(*) AS total FROM outcomes");
    assertEquals(total, 4);
    assertEquals((await select(path, "SELECT * FROM net_events")).length, 1);
    assertEquals((await readWhy(path, event.common.event_id)).record?.decision, "block");
  }));

Deno.test("an outcome without an event is shown nowhere, and does not verify", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: execEvent() });
      ledger.end({ event_id: "0".repeat(12), decision: { decision: "block" } });
    }
    const reason = "outcomes has a row of an event that is not there";
    assertEquals((await verifyLedger(path)).first_bad, { event_id: "0".repeat(12), reason });
    assertEquals((await readEvents(path, { denied: true })).events, []);
  }));

Deno.test("a finding is listed once, with the response of the first outcome", () =>
  withLedgerPath(async (path) => {
    const event = requestEvent("http.request");
    const { event_id } = event.common;
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const finding = { finding_id: "f", event_id, rule_id: "r" };
      ledger.append({
        event,
        findings: [finding, { ...finding, finding_id: "g", event_id: "0".repeat(12) }],
      });
      for (const status of [200, 500]) ledger.end({ event_id, response: { ...HTTP_RESPONSE, status } });
    }
    const rows = await readFindingRows(path, 0, 10);
    assertEquals(rows.map(({ finding, event }) => [finding.finding_id, event.http?.response?.status]), [[
      "f",
      200,
    ]]);
  }));
