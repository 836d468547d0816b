import { assertEquals } from "@std/assert";
import { agentOf, traceOf } from "../../../cmd/mcp/tool.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";

Deno.test("requests of sbx-mcp name its client, in characters that a header may have", () => {
  const own = `sbx-mcp/${VERSION}`;
  assertEquals(agentOf(undefined), own);
  assertEquals(agentOf({ name: "claude-code", version: "2.1" }), `${own} (claude-code/2.1)`);
  const hostile = { name: "a)\r\nx-evil: (ü", version: "9".repeat(1000) };
  const agent = agentOf(hostile);
  assertEquals(agent, `${own} (a___x-evil:___/${"9".repeat(64)})`);
  assertEquals(new Headers({ "user-agent": agent }).get("user-agent"), agent);
});

Deno.test("a trace of a call is passed on as a header, and nothing else of _meta", () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  assertEquals(traceOf({ traceparent, progressToken: 1 }), { traceparent });
  for (const wrong of ["", `${traceparent}\r\nx: y`, 1, [traceparent]]) {
    assertEquals(traceOf({ traceparent: wrong }), {});
  }
  assertEquals(traceOf(undefined), {});
});
