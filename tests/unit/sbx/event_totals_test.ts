/** The line of totals below the events of a session. */
import { assertEquals } from "@std/assert";
import type { ListedEvent } from "../../../cmd/sbx/record/event_query.ts";
import { formatTotals, totalsOf } from "../../../cmd/sbx/record/event_totals.ts";

const model = (response?: Record<string, unknown>, decision = "allow"): ListedEvent => ({
  common: {},
  decision,
  model: { request: {}, ...response && { response } },
} as unknown as ListedEvent);

const http = (bytes?: number, decision = "allow"): ListedEvent =>
  ({
    common: {},
    decision,
    http: { request: {}, ...bytes && { response: { bytes } } },
  }) as unknown as ListedEvent;

Deno.test("events without requests or models: their number, and what was refused", () => {
  const event = (decision?: string) => ({ common: {}, decision }) as unknown as ListedEvent;
  assertEquals(formatTotals(totalsOf([event()])), "1 event");
  assertEquals(
    formatTotals(totalsOf([event("allow"), event("block"), event("ask"), event("block")])),
    "4 events, 2 blocked, 1 waiting for an answer",
  );
});

Deno.test("requests with the bytes that came back", () => {
  assertEquals(
    formatTotals(totalsOf([http(1500), http(500), http(undefined, "block")])),
    "3 events, 1 blocked; 3 HTTP requests, 2.0 kB received",
  );
});

Deno.test("model calls with tokens, cost and the tools that they called; a refused call has used nothing", () => {
  const used = { input_tokens: 100, output_tokens: 20, estimated_cost_micros: 1500 };
  const calls = (...names: string[]) => names.map((name) => ({ name }));
  const totals = totalsOf([
    model({ ...used, tool_calls: calls("Bash", "Edit", "Bash") }),
    model({ input_tokens: 1, output_tokens: 1, tool_calls: calls("constructor", "a", "b", "c", "d") }),
    model(undefined, "block"),
  ]);
  assertEquals(totals.models, {
    calls: 2,
    input_tokens: 101,
    output_tokens: 21,
    cost_micros: 1500,
    unpriced_calls: 1,
    estimated_calls: 0,
    tool_calls: { Bash: 2, Edit: 1, constructor: 1, a: 1, b: 1, c: 1, d: 1 },
  });
  assertEquals(
    formatTotals(totals),
    "3 events, 1 blocked; 2 model calls, 101 tokens in and 21 out, cost $0.0015, 1 call whose price is not known; " +
      "tool calls of models: Bash 2, Edit 1, constructor 1, a 1, b 1, 2 of other tools",
  );
});
