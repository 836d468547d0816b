/**
 * A rule, or an event, on which the evaluation of the rules breaks: the event is
 * blocked, and that is on record.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Finding } from "../../../lib/event/mod.ts";
import { readEvents, readFindings, readWhy } from "../../../lib/ledger/read/mod.ts";
import type { Decision, Draft } from "../../../lib/policy/mod.ts";
import { http, rule, withGate } from "../../helper/session_gate.ts";

/** Rules with a character outside the BMP; each is a near miss of a blocked request. */
const ASTRAL =
  rule("profiles", "smile", "allow", 'http.request.path.contains("/😀") && http.request.method == "GET"') +
  rule("profiles", "rest", "block", "has(http.request.host)", "priority = 500");

Deno.test("a character outside the BMP in a rule neither ends the evaluation nor hides the event", () =>
  withGate(ASTRAL, async ({ gate, ledger, path }) => {
    const { allowed, event } = await gate.decide(http());
    assertEquals(allowed, false);
    await ledger.flush();
    const { events } = await readEvents(path);
    assertEquals(events.map(({ decision }) => decision), ["block"]);
    const decision = (await readWhy(path, event.common.event_id)).record as Decision;
    assertEquals(decision.near_misses, [{
      rule_id: "smile",
      failed: 'http.request.path.contains("/😀")',
      path: "http.request.path",
      value: "/",
    }]);
  }));

/** A tool call with arguments nested so deep that no recursive function can read them. */
function deepCall(): Draft {
  const root: Record<string, unknown> = {};
  let here = root;
  for (let depth = 0; depth < 100_000; depth++) here = here.a = {};
  const request = { method: "tools/call", server_name: "s", tool_name: "t", namespaced_tool_name: "s__t" };
  return {
    common: { event_type: "mcp.tool_call", source_engine: "mcp" },
    mcp: { request: { ...request, arguments: root } },
  } as Draft;
}

for (
  const [what, match] of [
    ["the rules", "size(mcp.request.arguments) == 1"],
    ["its record", "has(mcp.request.method)"],
  ]
) {
  Deno.test(`an event that breaks ${what} is a recorded block`, () =>
    withGate(rule("profiles", "calls", "allow", match), async ({ gate, ledger, path, findings }) => {
      const { allowed, decision } = await gate.decide(deepCall());
      assertEquals([allowed, decision.rule.id], [false, "guard-evaluation"]);
      assertEquals(findings(), ["guard-evaluation"]);
      // A refusal of a guard and an event that nothing can stop leave a record as well.
      assertEquals(gate.refuse(deepCall(), { id: "guard-x", reason: "x" }).rule.id, "guard-x");
      await ledger.flush();
      const { events } = await readEvents(path);
      assertEquals(events.map(({ decision, mcp }) => [decision, mcp!.request.arguments]), [["block", {}], [
        "block",
        {},
      ]]);
      const [{ title }] = await readFindings(path) as Finding[];
      assertStringIncludes(title, "the rules cannot be evaluated on this event");
    }));
}

Deno.test("an end that cannot be recorded leaves one without the response", () =>
  withGate("", async ({ gate, ledger, path }) => {
    const call: Draft = deepCall();
    call.mcp!.request.arguments = {};
    const passage = await gate.decide(call);
    passage.finish({ response: { is_error: false, content: [deepCall().mcp!.request.arguments] } });
    await ledger.flush();
    const { events: [{ outcome }] } = await readEvents(path);
    assertEquals(outcome?.error, "the response cannot be recorded");
  }));
