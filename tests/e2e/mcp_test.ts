/** An MCP client in a VM calls published servers outside: policy blocks, rewrites and asks on the way. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { result, scriptedServer } from "../helper/mcp_server.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";
import type { Parsed } from "../helper/json.ts";

/**
 * A client as an agent has one: it starts the server that its configuration names and
 * speaks lines of JSON-RPC to it.
 */
const CLIENT = `
import json, subprocess, sys
server = subprocess.Popen(["sbx-mcp-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(id, method, params):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\\n")
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == id: return message
ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}})
server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\\n")
if sys.argv[1] == "list": print(json.dumps([tool["name"] for tool in ask(2, "tools/list", {})["result"]["tools"]]))
else: print(json.dumps(ask(2, "tools/call", {"name": sys.argv[1], "arguments": json.loads(sys.argv[2])})))
server.stdin.close()
server.wait()
`;

const RULES = (url: string, camera: string) => `
[mcp.everything]
name = "everything"
url = "${url}"

[mcp.camera]
name = "camera"
url = "${camera}"

[profiles.rules.mask]
action = "rewrite"
match = 'mcp.request.namespaced_tool_name == "everything__echo"'
rewrite = [{ op = "replace", path = "mcp.request.arguments.message", pattern = "token-[0-9]+", value = "***" }]

[profiles.rules.look-first]
action = "ask"
match = 'mcp.request.tool_name == "get-sum"'
`;

const CORP = `
[corp.rules.no-environment]
action = "block"
match = 'mcp.request.tool_name == "get-env"'
reason = "the server's environment is not for agents"
`;

Deno.test("MCP from inside a VM to a published server", async (t) => {
  const folder = await Deno.makeTempDir();
  const corp = join(folder, "corp.toml");
  await Deno.writeTextFile(corp, CORP);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const everything = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", fromRoot("tests/helper/mcp_published.ts"), "everything", "streamableHttp"],
    env: { PORT: String(port) },
    stdout: "null",
    stderr: "null",
  }).spawn();
  const shot = "iVBO".repeat(500_000);
  const camera = scriptedServer({
    call: ({ id }) => result(id, { content: [{ type: "image", mimeType: "image/png", data: shot }] }),
  });
  const rules = RULES(`http://127.0.0.1:${port}/mcp`, camera.url);
  const sbx = await Sbx.make({ env: { SBX_CORP_CONFIG: corp } });
  try {
    await sbx.ok("profile", "copy", "code", "agent");
    const profile = join(sbx.home, "profiles/agent/profile.toml");
    const plain = await Deno.readTextFile(profile);
    await Deno.writeTextFile(profile, plain + rules);
    await sbx.ok("create", "dev", "--profile", "agent");
    const { workspace, session_id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    await Deno.writeTextFile(join(workspace, "client.py"), CLIENT);
    const servers = async () => JSON.parse(await sbx.ok("mcp", "servers", "-p", "agent", "--json")).servers;
    await eventually(
      "the server is connected",
      async () => (await servers()).some(({ name, connected }: Parsed) => name === "everything" && connected),
    );
    const call = async (tool: string, args: unknown = {}) => {
      const { stdout, stderr } = await sbx.cli(
        "exec",
        "dev",
        "--",
        "python3",
        "client.py",
        tool,
        JSON.stringify(args),
      );
      assert(stdout, stderr);
      return JSON.parse(stdout);
    };

    await t.step("the guest sees the tools of the server and the built-in ones", async () => {
      const tools = await call("list");
      for (const name of ["everything__echo", "everything__get-env", "local__echo", "local__fetch_http"]) {
        assert(tools.includes(name), `${name} of ${tools}`);
      }
    });

    await t.step(
      "a corp rule blocks one tool, an argument of another is rewritten, a third is asked about",
      async () => {
        const { error } = await call("everything__get-env");
        assertEquals([error.code, error.data.rule.id], [-32600, "no-environment"]);
        const echoed = await call("everything__echo", { message: "my token-123 is it" });
        assertStringIncludes(JSON.stringify(echoed.result.content), "my *** is it");
        const asking = call("everything__get-sum", { a: 2, b: 3 });
        await eventually("it asks", async () => JSON.parse(await sbx.ok("asks", "--json")).asks.length === 1);
        await sbx.ok("allow", JSON.parse(await sbx.ok("asks", "--json")).asks[0].ask_id);
        assertStringIncludes(JSON.stringify((await asking).result.content), "5");
      },
    );

    await t.step("a screenshot of 2 MB reaches the client in the guest, and the host", async () => {
      const seen = await call("camera__do");
      assert(seen.result.content[0].data === shot, JSON.stringify(seen).slice(0, 300));
      const told = JSON.parse(await sbx.ok("mcp", "call", "-p", "agent", "camera__do", "--json"));
      assert(told.content[0].data === shot);
    });

    await t.step("calls of the host take the same way, and the ledger has all of it", async () => {
      assertStringIncludes(
        await sbx.ok("mcp", "call", "-p", "agent", "everything__echo", '{"message": "token-9"}'),
        "***",
      );
      const blocked = await sbx.cli("mcp", "call", "-p", "agent", "everything__get-env");
      assertEquals(blocked.code, 1);
      assertStringIncludes(blocked.stderr, "not for agents");
      let events: DecidedEvent[] = [];
      const of = (tool: string) => events.filter(({ mcp }) => mcp?.request.tool_name === tool);
      await eventually("both calls are on record", async () => {
        ({ events } = JSON.parse(await sbx.ok("events", "dev", "--family", "mcp", "--json")));
        return of("get-env").length === 2;
      });
      assertEquals(of("get-env").map(({ decision }) => decision), ["block", "block"]);
      assertEquals(of("get-sum").map(({ decision }) => decision), ["allow"]);
      assertEquals(of("echo").map(({ common }) => common.actor), ["vm", "host"]);
      assert(of("echo").every(({ mcp }) => mcp?.response?.is_error === false));
    });

    await t.step("the built-in fetch goes through the network's rules", async () => {
      const { result } = await call("local__fetch_http", { url: "http://169.254.169.254/latest" });
      assertStringIncludes(JSON.stringify(result), "private");
    });

    await t.step("hot reload: an edited profile reaches the running VM", async () => {
      await Deno.writeTextFile(
        profile,
        plain + rules +
          `\n[mcp.twin]\nname = "twin"\nurl = "http://127.0.0.1:${port}/mcp"\n`,
      );
      const { body } = await sbx.api("POST", "/profiles/agent/mcp/servers/twin/refresh");
      assertEquals(body, { success: true, server_id: "twin", instances: 1 });
      assert((await call("list")).includes("twin__echo"));
    });

    await t.step("the aggregator killed: errors for its tools, and the VM runs on", async () => {
      const pids = await sbx.pids("aggregator", session_id);
      const all = pids.length > 0 ? pids : await aggregators(sbx);
      assert(all.length > 0, "there is an aggregator");
      for (const pid of all) Deno.kill(pid, "SIGKILL");
      const { error, result } = await call("everything__echo", { message: "x" });
      assert(error?.code === -32603 || result, JSON.stringify(error));
      await eventually(
        "it is there again",
        async () => (await call("everything__echo", { message: "x" })).result !== undefined,
      );
      assertEquals(JSON.parse(await sbx.ok("info", "dev", "--json")).status, "Running");
    });
  } finally {
    await sbx.dispose();
    await camera.close();
    everything.kill("SIGKILL");
    await everything.status;
    await Deno.remove(folder, { recursive: true });
  }
});

/** Aggregators below this home's processes: their own command line names neither home nor session. */
async function aggregators(sbx: Sbx): Promise<number[]> {
  const parents = await sbx.pids("process", sbx.home);
  const { stdout } = await runChild("ps", { args: ["-eo", "pid,ppid,args"] });
  const rows = new TextDecoder().decode(stdout).split("\n").map((line) => line.trim().split(/\s+/));
  const found = rows.filter(([, ppid, ...args]) =>
    parents.includes(Number(ppid)) && args.join(" ").includes("aggregator")
  );
  return found.map(([pid]) => Number(pid));
}
