/** What agents get: results of limited size, events as lines, and remedies in the words of tools. */
import { assert, assertEquals } from "@std/assert";
import { fitResult, hintForAgent, jsonBytes } from "../../../cmd/mcp/tool.ts";
import { TOOLS } from "../../../cmd/mcp/server.ts";
import { eventLine } from "../../../cmd/mcp/tools/event.ts";

Deno.test("a result that is too large is cut, and its shape, ids and short texts stay", () => {
  const small = { id: "x".repeat(200), list: [1, 2] };
  assertEquals(fitResult(small), { result: small, isCut: false });
  const event = { id: "a".repeat(64), body: "\u0000".repeat(50_000), nested: { text: "é".repeat(200_000) } };
  const large = { events: Array.from({ length: 50 }, () => event), next: "7" };
  const { result, isCut } = fitResult(large);
  assert(jsonBytes(result) <= 512 * 1024);
  const [first] = (result as typeof large).events;
  assertEquals([isCut, result.next, first.id], [true, "7", event.id]);
  assert(/^é+… \(\d+ characters omitted\)$/.test(first.nested.text));
  const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`name${at}`, at]));
  assert(jsonBytes(fitResult({ wide }).result) <= 512 * 1024);
});

Deno.test("an event is one printable line", () => {
  const event = {
    common: { timestamp_unix_ms: 0, event_id: "0123456789ab", event_type: "http.request" },
    http: { request: { method: "GET", url: `http://a/\n\u001b[2J\u202e${"x".repeat(10_000)}` } },
    decision: "block",
    rule_id: "no-a",
  };
  const line = eventLine(event);
  assert(
    line.startsWith("1970-01-01T00:00:00.000Z 0123456789ab http.request block no-a GET http://a/ [2J xxx"),
    line,
  );
  assert(!/\p{C}/u.test(line) && line.length < 700, line);
  assertEquals(eventLine({ ...event, decision: "allow", http: {} }).split(" ").slice(3), ["allow"]);
});

Deno.test("remedies name tools, and what only a person can do is for the person", () => {
  const names = new Set(TOOLS.map(({ name }) => name));
  const cases = [
    ["sbx list shows the VMs", "`list` shows the VMs"],
    ["sbx why 0123456789ab shows the record", "`why` with event_id 0123456789ab shows the record"],
    ["sbx start boots the VM again", "`start` boots the VM again"],
    ["free some space (sbx list shows the VMs, sbx delete removes one) and try again"],
    ["sbx mcp servers -p code lists its servers", "`mcp_tools` lists its servers"],
    ["sbx list shows the VMs and their profiles; sbx create --profile x starts one"],
    ["sbx stop, then try again", "for the person you work for: sbx stop, then try again"],
    ["start the gateway: sbx start; sbx status lists the running programs"],
    ["add another credential for the VM: sbx credentials add"],
  ];
  for (const [hint, expected] of cases) {
    const text = hintForAgent(hint);
    if (expected !== undefined) assertEquals(text, expected);
    assert(text.startsWith("for the person") || !/\bsbx [a-z]/.test(text), text);
    for (const [, tool] of text.matchAll(/`(\w+)`/g)) assert(names.has(tool), text);
  }
});
