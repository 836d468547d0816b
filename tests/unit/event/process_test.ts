import { assertEquals } from "@std/assert";
import { draftOf as dnsDraft } from "../../../lib/network/dns/service.ts";
import { containerName, processOf } from "../../../lib/event/mod.ts";
import { callerOf, draftOf as mcpDraft } from "../../../lib/mcp/endpoint/event.ts";

const CURL = { pid: 0, ppid: 0, executable: "curl", command: "curl", cwd: "" };

Deno.test("executable and command of a guest's process are the name that the guest gives", () => {
  assertEquals(processOf("curl"), CURL);
  assertEquals(processOf("curl", 42), { ...CURL, pid: 42 });
  assertEquals(processOf("a\x00b\x1b[2J\n\x7f")?.command, "ab[2J");
  assertEquals(processOf("x".repeat(1000))?.executable, "x".repeat(256));
});

Deno.test("a process in a container has it in events of DNS and of requests", () => {
  const container = { id: "a".repeat(64), name: "web", image: "nginx:1" };
  assertEquals(processOf("curl", 42, container), { ...CURL, pid: 42, container });
  const question = { name: "example.com", type: "A" } as Parameters<typeof dnsDraft>[0];
  const { common } = dnsDraft(question, { proto: "udp", process_name: "curl", container }, "vm");
  assertEquals(common.process, { ...CURL, container });
});

Deno.test("a container is shown by its name, and without one by the beginning of its id", () => {
  const id = "0123456789abcdef".repeat(4);
  const shown = [{ id, name: "web" }, { id }, undefined].map(containerName);
  assertEquals(shown, ["web", "0123456789ab", ""]);
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
