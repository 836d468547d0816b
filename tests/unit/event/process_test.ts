import { assertEquals } from "@std/assert";
import { draftOf as dnsDraft } from "../../../lib/network/dns/service.ts";
import { processOf } from "../../../lib/event/mod.ts";
import { callerOf, draftOf as mcpDraft } from "../../../lib/mcp/endpoint/event.ts";

const CURL = { pid: 0, ppid: 0, executable: "curl", command: "curl", cwd: "" };

Deno.test("executable and command of a guest's process are the name that the guest gives", () => {
  assertEquals(processOf("curl"), CURL);
  assertEquals(processOf("curl", 42), { ...CURL, pid: 42 });
  assertEquals(processOf("a\x00b\x1b[2J\n\x7f")?.command, "ab[2J");
  assertEquals(processOf("x".repeat(1000))?.executable, "x".repeat(256));
});

Deno.test("a guest's process without a name is left out", () => {
  assertEquals(processOf(""), undefined);
  assertEquals(processOf("\x00\n", 42), undefined);
});

Deno.test("DNS and MCP name the process alike, and have none without a name", () => {
  const question = { name: "example.com", type: "A" } as Parameters<typeof dnsDraft>[0];
  const drafts = (name: string) => [
    dnsDraft(question, { proto: "udp", process_name: name }, "vm"),
    mcpDraft("mcp.tool_list", "tools/list", callerOf(processOf(name), {})),
  ];
  assertEquals(drafts("curl").map(({ common }) => common.process), [CURL, CURL]);
  assertEquals(drafts("").map(({ common }) => "process" in common), [false, false]);
});
