/**
 * A stdio MCP server of a profile runs in a VM of its own, under the profile's policy,
 * and ends with the VM it serves.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";
import type { VmSummary } from "../../lib/client/api/mod.ts";
import type { Parsed } from "../helper/json.ts";

/** A server of a few lines, as its documentation would have it started: by a command. */
const SERVER = `
import json, os, socket, subprocess, sys
print("server is up", file=sys.stderr, flush=True)
def tool(name): return {"name": name, "description": name, "inputSchema": {"type": "object"}}
def do(name, arguments):
    if name == "where": return " ".join([socket.gethostname(), os.environ["PLACE"], str(os.listdir("."))])
    if name == "fetch":
        return subprocess.run(["python3", "-c", "import urllib.request as r; r.urlopen('https://blocked.example.com', timeout=20)"], capture_output=True, text=True).stderr[-300:]
    if name == "die":
        print("dying of", arguments["cause"], file=sys.stderr, flush=True)
        os._exit(7)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, params = message["method"], message.get("params", {})
    result = {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    elif method == "tools/list": result = {"tools": [tool("where"), tool("fetch"), tool("die"), tool("never")]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": do(params["name"], params.get("arguments", {}))}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
`;

const MCP = `
[mcp.helper]
name = "Helper"
command = "python3"
args = ["-c", '''${SERVER}''']
env = { PLACE = "a VM of its own" }

[mcp.broken]
name = "Broken"
command = "/no/such/program"

[profiles.rules.no-never]
action = "block"
match = 'mcp.request.tool_name == "never"'
reason = "never is never called"

[profiles.rules.server-offline]
action = "block"
match = 'dns.request.qname == "blocked.example.com" && common.labels["mcp_server"] == "helper"'
reason = "the helper stays offline"
`;

Deno.test("a stdio MCP server in a VM of its own", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const list = async (...args: string[]): Promise<VmSummary[]> =>
    JSON.parse(await sbx.ok("list", ...args, "--json")).vms;
  const call = (tool: string, args: unknown = {}) =>
    sbx.cli("mcp", "call", "-p", "agent", `helper__${tool}`, JSON.stringify(args));
  const server = async (name: string) =>
    JSON.parse(await sbx.ok("mcp", "servers", "-p", "agent", "--json")).servers
      .find((each: Parsed) => each.name === name);
  const companions = async () => (await list("--all")).filter(({ parent }) => parent?.server === "helper");
  try {
    await sbx.ok("profile", "copy", "code", "agent");
    const profile = join(sbx.home, "profiles/agent/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + MCP);
    await sbx.ok("create", "dev", "--profile", "agent");
    const { workspace, session_id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    await Deno.writeTextFile(join(workspace, "private.txt"), "of the agent");
    await eventually("the server is connected", async () => (await server("helper")).connected);

    await t.step(
      "its tools run there: another machine, its own variables, none of the agent's files",
      async () => {
        const { stdout, stderr, code } = await call("where");
        assertEquals(code, 0, stderr);
        assertStringIncludes(stdout, "a VM of its own");
        assert(!stdout.includes("private.txt"), stdout);
      },
    );

    await t.step("its VM is listed with --all only, and names the VM it belongs to", async () => {
      assertEquals((await list()).map(({ name }) => name), ["dev"]);
      const [vm] = await companions();
      assertEquals(vm.parent, { id: session_id, server: "helper" });
      assert(!vm.available_actions.includes("save"));
      assertStringIncludes(await sbx.ok("list", "--all"), "helper of dev");
    });

    await t.step("policy decides on its tools, and on what its program does", async () => {
      const blocked = await call("never");
      assertEquals(blocked.code, 1);
      assertStringIncludes(blocked.stderr, "never is never called");
      await call("fetch");
      const [{ name }] = await companions();
      const { events }: { events: DecidedEvent[] } = JSON.parse(await sbx.ok("events", name, "--json"));
      const labels = { mcp_server: "helper", parent_session: session_id };
      for (const { common } of events) {
        for (const [label, value] of Object.entries(labels)) assertEquals(common.labels[label], value);
      }
      const lookup = events.find(({ dns }) => dns?.request.qname === "blocked.example.com");
      assertEquals(lookup?.decision, "block");
      const started = events.find(({ common }) => common.event_type === "process.exec");
      assertEquals(started?.process?.activity.executable, "python3");
    });

    await t.step("what it says on standard error is in the log of the VM it serves", async () => {
      assertStringIncludes(await sbx.ok("logs", "dev"), "server is up");
    });

    await t.step(
      "a program that ends is told with its reason, and started again in the same VM",
      async () => {
        const [before] = await companions();
        const { code, stderr } = await call("die", { cause: "boredom" });
        assertEquals(code, 1);
        assertMatch(stderr, /its program ended with exit code 7: .*dying of boredom/s);
        await eventually("it is connected again", async () => (await server("helper")).connected);
        assertEquals((await call("where")).code, 0);
        assertEquals((await companions()).map(({ id }) => id), [before.id]);
      },
    );

    await t.step("a program that is not there: the reason is shown, and the other server works", async () => {
      await eventually("it has failed", async () => /exit code/.test((await server("broken")).last_error));
      assertMatch((await server("broken")).last_error, /exit code 126: sbx: cannot run \/no\/such\/program/);
    });

    await t.step(
      "the service killed: a new one finds the same VM, and the server stays connected",
      async () => {
        const [before] = await companions();
        Deno.kill(sbx.pid("service"), "SIGKILL");
        await sbx.ok("list");
        assertEquals((await call("where")).code, 0);
        assertEquals((await companions()).map(({ id }) => id), [before.id]);
      },
    );

    await t.step("its VM killed: another one is started", async () => {
      const [before] = await companions();
      for (const pid of await sbx.pids("process", before.id)) Deno.kill(pid, "SIGKILL");
      await eventually("another one serves", async () => {
        const [now] = await companions();
        return now !== undefined && now.id !== before.id && (await server("helper")).connected;
      });
      assertEquals((await call("where")).code, 0);
    });

    await t.step("the service killed and the VM's process too: nothing of its server is left", async () => {
      const [{ id }] = await companions();
      Deno.kill(sbx.pid("service"), "SIGKILL");
      for (const pid of await sbx.pids("process", session_id)) Deno.kill(pid, "SIGKILL");
      await eventually("its machine has ended", async () => (await sbx.pids("", id)).length === 0);
      await eventually("a new service lists none", async () => (await companions()).length === 0);
      assertEquals((await list("--all")).map(({ name, status }) => [name, status]), [["dev", "Defunct"]]);
    });
  } finally {
    await sbx.dispose();
  }
});
