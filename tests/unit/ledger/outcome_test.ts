/** How events end: a chain of their own, merged when it is read. */
import { assertEquals } from "@std/assert";
import type { Event, EventType } from "../../../lib/event/mod.ts";
import { Ledger, type LedgerOutcome, readEvents, readWhy, verifyLedger } from "../../../lib/ledger/mod.ts";
import { execEvent, inFolder, requestEvent, select, SESSION } from "../../helper/ledger.ts";

/** A closed ledger of one event with its decision, ended by each of the outcomes. */
async function ended(path: string, event: Event, decision: string, ...outcomes: Partial<LedgerOutcome>[]) {
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

Deno.test("a response is in the event when it is read, and how it ended is beside it", () =>
  inFolder(async (path) => {
    const event = requestEvent("http.request");
    await ended(
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

Deno.test("an event without an outcome is as it was appended", () =>
  inFolder(async (path) => {
    const event = requestEvent("http.request");
    await ended(path, event, "allow");
    const { events } = await readEvents(path);
    assertEquals(events as unknown[], [{ ...event, decision: "allow", rule_id: "first" }]);
  }));

/** Decision at first, that of the outcome, and what holds: `denied` lists what was blocked in the end. */
const DECISIONS: [first: string, later: string | undefined, holds: string, denied: boolean][] = [
  ["ask", "allow", "allow", false],
  ["ask", "block", "block", true],
  ["ask", undefined, "ask", false],
  ["allow", "block", "block", true],
  ["allow", undefined, "allow", false],
  ["block", undefined, "block", true],
  ["block", "allow", "allow", false],
];
for (const [first, later, holds, denied] of DECISIONS) {
  Deno.test(`decision: ${first}, then ${later ?? "nothing"}, is ${holds}`, () =>
    inFolder(async (path) => {
      const event = requestEvent("http.request");
      const decision = later && { decision: later, rule: { id: "second", layer: "corp", reason: "later" } };
      await ended(
        path,
        event,
        first,
        { ...(decision && { decision }), error: "x" } as Partial<LedgerOutcome>,
      );
      const rule = later ? "second" : "first";
      const [read] = (await readEvents(path)).events;
      assertEquals([read.decision, read.rule_id], [holds, rule]);
      assertEquals((await readEvents(path, { denied: true })).events.length, denied ? 1 : 0);
      const { record } = await readWhy(path, event.common.event_id);
      assertEquals([record?.decision, record?.rule?.id], [holds, rule]);
      for (const view of ["security_events", "decisions", "net_events"]) {
        const [row] = await select(path, `SELECT decision, rule_id FROM ${view}`);
        assertEquals([row.decision, row.rule_id], [holds, rule], view);
      }
    }));
}

Deno.test("denied events come in order and page by page, whichever way they were denied", () =>
  inFolder(async (path) => {
    const denied: number[] = [];
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 1; at <= 300; at++) {
        const event = requestEvent("http.request");
        const decision = at % 3 === 0 ? "block" : at % 3 === 1 ? "ask" : "allow";
        ledger.append({ event, decision: { decision } });
        const answer = at % 2 ? "block" : "allow";
        if (decision === "ask") {
          ledger.end({ event_id: event.common.event_id, decision: { decision: answer } });
        }
        if (decision === "block" || (decision === "ask" && answer === "block")) denied.push(at);
      }
    }
    const read: number[] = [];
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(path, { denied: true, limit: 7, cursor });
      read.push(...page.events.map(({ common }) => common.sequence));
      cursor = page.next_cursor;
    }
    assertEquals(read, denied);
  }));

/** Family table, an event of it, a response, and the columns that come of them. */
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
  Deno.test(`${view} shows the response, wherever it was, and how long it took`, () =>
    inFolder(async (path) => {
      const known = requestEvent(type);
      const [family] = type.split(".") as ["http"];
      Object.assign(known[family]!, { response });
      await ended(path, requestEvent(type), "allow", { response, first_byte_ms: 2, duration_ms: 31 });
      await ended(path, known, "allow", { duration_ms: 32, error: "reset" });
      await ended(path, requestEvent("file.activity"), "allow");
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

Deno.test("an event ends once: what is said of it later is kept, holds nothing up, and changes nothing", () =>
  inFolder(async (path) => {
    const event = requestEvent("http.request");
    const blocked = { decision: { decision: "block", rule: { id: "second" } } };
    await ended(path, event, "ask", blocked, { response: HTTP_RESPONSE }, { error: "thrice" });
    {
      // Neither in its own batch nor in a later life of the ledger.
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

Deno.test("an outcome of an event that nobody appended is kept, and shown nowhere", () =>
  inFolder(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: execEvent() });
      ledger.end({ event_id: "0".repeat(12), decision: { decision: "block" } });
    }
    assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: true });
    assertEquals((await readEvents(path, { denied: true })).events, []);
  }));

Deno.test("a page ends early when its events are large, and none is left out", () =>
  inFolder(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 0; at < 40; at++) {
        ledger.append({
          event: requestEvent("mcp.tool_call", { arguments: { text: "x".repeat(1_000_000) } }),
        });
      }
    }
    const pages: number[] = [];
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(path, { limit: 1000, cursor });
      pages.push(page.events.length);
      cursor = page.next_cursor;
    }
    assertEquals(pages, [17, 17, 6]);
    assertEquals(await verifyLedger(path), { ok: true, events: 40, sealed: true });
  }));
