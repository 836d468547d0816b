/**
 * An agent on the host drives VMs through sbx-mcp: it touches its own only, and
 * sees what was refused and asked.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { TOOLS } from "../../../cmd/mcp/server.ts";
import { hostClient } from "../../helper/mcp_host.ts";
import { eventually, Sbx } from "../../helper/sbx.ts";
import type { Parsed } from "../../helper/json.ts";

const RULES = `
[profiles.rules.look-first]
action = "ask"
match = 'http.request.host == "203.0.113.2"'

[profiles.rules.never]
action = "block"
match = 'http.request.host == "203.0.113.1"'
`;

/** Every tool that takes a VM, with arguments that would be valid for one. */
const TOUCHES: [string, string, Record<string, unknown>][] = [
  ["info", "vm", {}],
  ["stop", "vm", {}],
  ["start", "vm", {}],
  ["fork", "vm", {}],
  ["delete", "vm", {}],
  ["create", "from", {}],
  ["exec", "vm", { command: "true" }],
  ["start_job", "vm", { command: "true" }],
  ["jobs", "vm", {}],
  ["job_logs", "vm", { job: "3f2a90c1" }],
  ["stop_job", "vm", { job: "3f2a90c1" }],
  ["control_service", "vm", { service: "db", action: "stop" }],
  ["ports", "vm", {}],
  ["open_port", "vm", { guest_port: 8123 }],
  ["close_port", "vm", { guest_port: 8123 }],
  ["read_file", "vm", { path: "secret" }],
  ["write_file", "vm", { path: "secret", content: "x" }],
  ["list_folder", "vm", {}],
  ["make_folder", "vm", { path: "a" }],
  ["snapshots", "vm", {}],
  ["snapshot_create", "vm", {}],
  ["snapshot_diff", "vm", { from: "s00000000" }],
  ["snapshot_restore", "vm", { snapshot: "s00000000" }],
  ["undo_list", "vm", {}],
  ["undo", "vm", {}],
  ["logs", "vm", {}],
  ["events", "vm", {}],
  ["why", "vm", { event_id: "0123456789ab" }],
  ["mcp_tools", "vm", {}],
  ["mcp_call", "vm", { name: "local__echo", arguments: { text: "x" } }],
];

Deno.test("an agent touches the VMs that it made, and no other", async (t) => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("profile", "copy", "code", "agent");
    const profile = `${sbx.home}/profiles/agent/profile.toml`;
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + RULES);
    await sbx.ok("create", "persons");
    const persons = JSON.parse(await sbx.ok("info", "persons", "--json"));
    const client = await hostClient(sbx);
    const call = async (name: string, args: Record<string, unknown> = {}, options = {}) => {
      const { isError, content, structuredContent }: Parsed = await client.callTool(
        { name, arguments: args },
        undefined,
        options,
      );
      return { isError, text: content[0].text as string, result: structuredContent };
    };

    await t.step("a person's VM does not exist for its tools, by name or id", async () => {
      const takeVm = TOOLS.filter(({ input }) => "vm" in input.shape).map(({ name }) => name);
      assertEquals(takeVm.filter((name) => !TOUCHES.some(([tool]) => tool === name)), []);
      for (const [tool, key, args] of TOUCHES) {
        for (const vm of [persons.name, persons.id]) {
          const { isError, text } = await call(tool, { ...args, [key]: vm });
          assertEquals(isError, true, tool);
          assertStringIncludes(text, "(vm.not_found)", tool);
        }
      }
      assertEquals((await call("list")).result, { vms: [] });
      assertEquals(JSON.parse(await sbx.ok("info", "persons", "--json")).id, persons.id);
    });

    const own = (await call("create", { name: "own", profile_id: "agent" })).result;

    await t.step("its own VM works, and refusals and asks are in the result of exec", async () => {
      const progress: string[] = [];
      const curl = (host: string) => `curl -s -o /dev/null http://${host}/`;
      const done = call("exec", {
        vm: "own",
        command: `${curl("203.0.113.1")}; ${curl("203.0.113.2")}; true`,
      }, { onprogress: ({ message }: { message?: string }) => progress.push(message ?? "") });
      await eventually(
        "a person is asked",
        () => progress.some((line) => line.includes("waiting for a person")),
      );
      const [ask] = (await call("asks")).result.asks;
      assertEquals([ask.rule_id, ask.vm, ask.status], ["look-first", own.id, "pending"]);
      await sbx.ok("deny", ask.ask_id);
      const { result } = await done;
      assertEquals(result.exit_code, 0);
      assertEquals(result.denied.map(({ rule_id }: Parsed) => rule_id), ["never", "look-first"]);
      assertEquals(result.asks.map(({ rule_id, status }: Parsed) => [rule_id, status]), [[
        "look-first",
        "denied",
      ]]);
      const { result: events } = await call("events", { vm: "own", denied: true });
      assertEquals(events.lines.length, 2);
      assert(/block never GET http:\/\/203\.0\.113\.1\//.test(events.lines[0]), events.lines[0]);
      const { result: bodies } = await call("events", { vm: "own", denied: true, bodies: true, limit: 1 });
      assertEquals(bodies.events[0].http.request.host, "203.0.113.1");
      assert(
        (await call("events", { vm: "own", denied: true, cursor: bodies.next_cursor })).result.lines
          .length === 1,
      );
    });

    await t.step("a server of its VM is reachable as long as the port is open", async () => {
      const line = "echo from-the-vm >/root/page; exec python3 -m http.server -d /root 8123";
      await call("start_job", { vm: "own", command: line });
      const { result: port } = await call("open_port", { vm: "own", guest_port: 8123 });
      const page = `http://127.0.0.1:${port.host_port}/page`;
      const read = () => fetch(page).then((answer) => answer.text(), () => "");
      await eventually("the server answers", async () => (await read()) === "from-the-vm\n");
      assertEquals(
        (await call("ports", { vm: "own" })).result.ports.map(({ guest_port }: Parsed) => guest_port),
        [8123],
      );
      await call("close_port", { vm: "own", guest_port: 8123 });
      assertEquals(await read(), "");
      assertStringIncludes((await call("close_port", { vm: "own", guest_port: 8123 })).text, "`ports`");
    });

    await t.step("a cancelled program ends in the VM", async () => {
      const abort = new AbortController();
      const progress: string[] = [];
      const done = call("exec", { vm: "own", command: "echo begun; exec sleep 4711" }, {
        signal: abort.signal,
        onprogress: ({ message }: { message?: string }) => progress.push(message ?? ""),
      }).catch(() => "cancelled");
      await eventually("it runs", () => progress.includes("begun"));
      abort.abort();
      assertEquals(await done, "cancelled");
      await eventually(
        "it is gone",
        async () =>
          (await call("exec", { vm: "own", command: "pgrep -f 'sleep 471[1]'" })).result.exit_code === 1,
      );
    });

    await t.step("a person's VM that takes the name of a deleted one is not the agent's", async () => {
      await call("delete", { vm: "own" });
      await sbx.ok("create", "own");
      assertStringIncludes((await call("info", { vm: "own" })).text, "(vm.not_found)");
      assert((await call("events", { vm: own.id })).result.lines.length > 0, "the record stays readable");
    });
    await client.close();
  } finally {
    await sbx.dispose();
  }
});
