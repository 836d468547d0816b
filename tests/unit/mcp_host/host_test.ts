/** sbx-mcp over stdio, started like an agent does, against a real service without an image to boot. */
import { assert, assertEquals } from "@std/assert";
import { TOOLS } from "../../../cmd/mcp/server.ts";
import { limitChild } from "../../helper/child.ts";
import { emptyHome, hostClient } from "../../helper/mcp_host.ts";
import { fromRoot } from "../../helper/repo.ts";
import type { Parsed } from "../../helper/json.ts";

const NAMES = [
  "create",
  "list",
  "info",
  "start",
  "stop",
  "fork",
  "delete",
  "profiles",
  "exec",
  "run",
  "start_job",
  "jobs",
  "job_logs",
  "stop_job",
  "control_service",
  "ports",
  "open_port",
  "close_port",
  "read_file",
  "write_file",
  "list_folder",
  "make_folder",
  "snapshots",
  "snapshot_create",
  "snapshot_diff",
  "snapshot_restore",
  "undo_list",
  "undo",
  "logs",
  "events",
  "why",
  "asks",
  "mcp_tools",
  "mcp_call",
];

/** Calls, and the code of the error that each returns. */
const FAILING: [string, Record<string, unknown>, string][] = [
  ["create", { env: { SBX_DEV_PORTS: "19222" } }, "mcp.env_refused"],
  ["info", { vm: "nobody" }, "vm.not_found"],
  ["info", { vm: "a/../b" }, "vm.not_found"],
  ["start", { vm: "nobody" }, "vm.not_found"],
  ["stop", { vm: "nobody" }, "vm.not_found"],
  ["fork", { vm: "nobody", name: "copy" }, "vm.not_found"],
  ["delete", { vm: "nobody" }, "vm.not_found"],
  ["exec", { vm: "nobody", command: "true" }, "vm.not_found"],
  ["start_job", { vm: "nobody", command: "true" }, "vm.not_found"],
  ["jobs", { vm: "nobody" }, "vm.not_found"],
  ["job_logs", { vm: "nobody", job: "3f2a90c1" }, "vm.not_found"],
  ["stop_job", { vm: "nobody", job: "3f2a90c1" }, "vm.not_found"],
  ["control_service", { vm: "nobody", service: "db", action: "stop" }, "vm.not_found"],
  ["control_service", { vm: "nobody", service: "../jobs", action: "stop" }, "vm.not_found"],
  ["ports", { vm: "nobody" }, "vm.not_found"],
  ["open_port", { vm: "nobody", guest_port: 80 }, "vm.not_found"],
  ["close_port", { vm: "nobody", guest_port: 80 }, "vm.not_found"],
  ["read_file", { vm: "nobody", path: "a" }, "vm.not_found"],
  ["write_file", { vm: "nobody", path: "a", content: "b" }, "vm.not_found"],
  ["list_folder", { vm: "nobody" }, "vm.not_found"],
  ["make_folder", { vm: "nobody", path: "a" }, "vm.not_found"],
  ["snapshots", { vm: "nobody" }, "vm.not_found"],
  ["snapshot_create", { vm: "nobody" }, "vm.not_found"],
  ["snapshot_diff", { vm: "nobody", from: "s00000000" }, "vm.not_found"],
  ["snapshot_restore", { vm: "nobody", snapshot: "s00000000" }, "vm.not_found"],
  ["undo_list", { vm: "nobody" }, "vm.not_found"],
  ["undo", { vm: "nobody", number: 1 }, "vm.not_found"],
  ["create", { from: "nobody" }, "vm.not_found"],
  ["logs", { vm: "nobody" }, "vm.not_found"],
  ["events", { vm: "nobody", denied: true, family: "http" }, "vm.not_found"],
  ["mcp_tools", { vm: "nobody" }, "vm.not_found"],
  ["mcp_call", { vm: "nobody", name: "a__b" }, "vm.not_found"],
  ["create", { profile_id: "nothing-like-it" }, "profile.not_found"],
];

/** Calls with invalid arguments, and the text that the error contains. */
const WRONG: [string, Record<string, unknown>, string][] = [
  ["info", {}, "vm"],
  ["info", { vm: "a", name: "b" }, "name"],
  ["exec", { vm: "a", command: "b", shell: true }, "shell"],
  ["exec", { vm: "a", command: "b", timeout_secs: -1 }, "timeout_secs"],
  ["create", { cpus: 99 }, "cpus"],
  ["open_port", { vm: "a", guest_port: 0 }, "guest_port"],
  ["open_port", { vm: "a", guest_port: 80, host_port: 70000 }, "host_port"],
  ["why", { vm: "a", event_id: "../list" }, "12 hex"],
  ["mcp_call", { vm: "a", name: "nothing" }, "<server>__<tool>"],
  ["write_file", { vm: "a", path: "b", content: "c", mode: "rwx" }, "mode"],
];

Deno.test("sbx-mcp: an agent lists its tools, and every failure has a message and a hint", async (t) => {
  const sbx = await emptyHome();
  try {
    const client = await hostClient(sbx);
    const textOf = async (name: string, args: Record<string, unknown>) => {
      const { isError, content } = await client.callTool({ name, arguments: args });
      return { isError, text: (content as { text: string }[])[0].text };
    };

    await t.step("every tool has a description, an input and an output schema", async () => {
      const { tools } = await client.listTools();
      assertEquals(tools.map(({ name }) => name), NAMES);
      for (const { name, description, annotations, inputSchema, outputSchema } of tools) {
        assert(description!.length > 60, name);
        assertEquals(inputSchema.additionalProperties, false, name);
        assertEquals(outputSchema!.type, "object", name);
        const hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] as const;
        for (const hint of hints) assertEquals(typeof annotations![hint], "boolean", `${name} ${hint}`);
        assert(!(annotations!.readOnlyHint && annotations!.destructiveHint), name);
      }
      assert(client.getInstructions()!.includes("`why`"));
    });

    await t.step("the service is started when it is not running, and again after it stopped", async () => {
      for (let round = 0; round < 2; round++) {
        const { structuredContent, content } = await client.callTool({ name: "list" });
        assertEquals(structuredContent, { vms: [] });
        assertEquals(JSON.parse((content as { text: string }[])[0].text), { vms: [] });
        assert(sbx.pid("service") > 0);
        await sbx.ok("stop", "--all");
      }
    });

    for (const [name, args, code] of FAILING) {
      await t.step(`${name} ${JSON.stringify(args)} → ${code}`, async () => {
        const { isError, text } = await textOf(name, args);
        assertEquals(isError, true);
        assert(text.includes(`(${code})`), text);
        assert(text.split("\n").length === 2, `a hint follows: ${text}`);
        assert(!/^sbx |[^:] sbx [a-z]+ /.test(text), `in the words of tools: ${text}`);
      });
    }

    await t.step("what exists without VMs is listed", async () => {
      const { structuredContent }: Parsed = await client.callTool({ name: "profiles" });
      assert(structuredContent.profiles.some(({ id }: Parsed) => id === "code"));
      assertEquals((await client.callTool({ name: "asks" })).structuredContent, { asks: [] });
    });

    for (const [name, args, named] of WRONG) {
      await t.step(`${name} ${JSON.stringify(args)} is rejected before any request`, async () => {
        const { isError, text } = await textOf(name, args);
        assertEquals(isError, true);
        assert(text.includes(named), text);
      });
    }

    await t.step("a VM without an image to boot is an error that names the missing part", async () => {
      for (const [name, args] of [["create", { name: "one" }], ["run", { command: "true" }]] as const) {
        const { isError, text } = await textOf(name, args);
        assertEquals(isError, true);
        assert(/assets|image|manifest/.test(text), text);
      }
    });
    await client.close();
  } finally {
    await sbx.dispose();
  }
});

Deno.test("sbx-mcp: piped requests are answered before it exits, and stdout contains nothing else", async () => {
  const sbx = await emptyHome();
  try {
    const params = {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name: "p", version: "1" },
    };
    const messages = [
      { jsonrpc: "2.0", id: 1, method: "initialize", params },
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "list", arguments: {} } },
    ];
    const child = limitChild(new Deno.Command(fromRoot("bin/sbx-mcp"), {
      env: sbx.env,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn());
    const writer = child.stdin.getWriter();
    await writer.write(
      new TextEncoder().encode(messages.map((each) => `${JSON.stringify(each)}\n`).join("")),
    );
    await writer.close();
    const { code, stdout, stderr } = await child.output();
    const lines = new TextDecoder().decode(stdout).trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals([code, lines.map(({ id }) => id)], [0, [1, 2]]);
    assertEquals(lines[1].result.structuredContent, { vms: [] });
    assertEquals(new TextDecoder().decode(stderr), "sbx-mcp: starting sbx…\n");
  } finally {
    await sbx.dispose();
  }
});

Deno.test("sbx-mcp: every tool name in a description exists", () => {
  const known = new Set(TOOLS.map(({ name }) => name));
  const NOT_TOOLS = /^(setsid.*|server)$/;
  for (const { name, description } of TOOLS) {
    for (const [, word] of description.matchAll(/`([^`]+)`/g)) {
      assert(known.has(word) || NOT_TOOLS.test(word), `${name}: ${word}`);
    }
  }
});
