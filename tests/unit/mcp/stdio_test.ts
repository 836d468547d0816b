/**
 * Stdio servers over the private wire: programs that the parent starts, of
 * which the aggregator has two pipes.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { StdioStarter } from "../../../lib/mcp/mod.ts";
import { TestAggregator } from "../../helper/mcp_aggregator.ts";
import { definition, scriptedServer } from "../../helper/mcp_server.ts";
import { ScriptedProgram } from "../../helper/mcp_stdio.ts";
import { eventually } from "../../helper/sbx.ts";
import type { Parsed } from "../../helper/json.ts";

const stdio = definition("files", "", { stdio: true });
const text = (value: string) => ({ content: [{ type: "text", text: value }] });

/** Starts these programs, one after another, and the last one again and again. */
function starting(programs: ScriptedProgram[]): { start: StdioStarter; starts: string[] } {
  const starts: string[] = [];
  const start: StdioStarter = (server) => {
    starts.push(server);
    return Promise.resolve(programs[Math.min(starts.length, programs.length) - 1]);
  };
  return { start, starts };
}

Deno.test("mcp stdio: tools of a program are listed and called, and it ends with the aggregator", async () => {
  const program = new ScriptedProgram(({ params }) => text(`did ${params.arguments.what}`));
  const { start, starts } = starting([program]);
  const aggregator = await TestAggregator.start([stdio], { startStdio: start });
  const { tools } = await aggregator.request("list_tools");
  assertEquals(tools.map((tool: Parsed) => tool.namespaced_name), ["files__do"]);
  const { result } = await aggregator.call("files__do", { what: "this" });
  assertEquals(result, text("did this"));
  assertEquals(starts, ["files"]);
  await aggregator.close();
  assert(program.isClosed);
});

Deno.test("mcp stdio: a program that ends fails its calls with the reason, and is started again", async () => {
  const first = new ScriptedProgram(() => {
    first.die("its program ended with exit code 3");
  });
  const second = new ScriptedProgram(() => text("again"));
  const { start, starts } = starting([first, second]);
  const aggregator = await TestAggregator.start([stdio], { startStdio: start });
  assertStringIncludes((await aggregator.call("files__do")).error, "its program ended with exit code 3");
  const { servers } = await aggregator.request("list_servers");
  assertEquals([servers[0].connected, servers[0].last_error], [false, "its program ended with exit code 3"]);
  await eventually("it is connected again", async () => {
    return (await aggregator.request("list_servers")).servers[0].connected;
  });
  assertEquals((await aggregator.call("files__do")).result, text("again"));
  assertEquals(starts.length, 2);
  await aggregator.close();
});

Deno.test("mcp stdio: a program that is slow to start delays the first lists only so long, and is not ended", async () => {
  const program = new ScriptedProgram(() => text("at last"));
  const started = Promise.withResolvers<void>();
  const initialize = program.write.bind(program);
  program.write = async (bytes) => {
    await started.promise;
    await initialize(bytes);
  };
  const { start, starts } = starting([program]);
  const aggregator = await TestAggregator.start([stdio], { startStdio: start, timeouts: { connect: 200 } });
  assertEquals((await aggregator.request("list_tools")).tools, []);
  const { servers } = await aggregator.request("list_servers");
  assertEquals([servers[0].connected, servers[0].last_error], [false, "its program is still starting"]);
  const called = aggregator.call("files__do");
  const awaited = aggregator.request("await_server", { name: "files" });
  started.resolve();
  assertEquals((await called).result, text("at last"));
  assertEquals((await awaited).result, { connected: true });
  assertEquals(starts.length, 1);
  await aggregator.close();
});

Deno.test("mcp stdio: one that never answers is ended, and started again", async () => {
  const { start, starts } = starting([new ScriptedProgram(), new ScriptedProgram()]);
  const silent: StdioStarter = async (...args) => {
    const program = await start(...args) as ScriptedProgram;
    if (starts.length === 1) program.write = () => Promise.resolve();
    return program;
  };
  const aggregator = await TestAggregator.start([stdio], {
    startStdio: silent,
    timeouts: { connect: 100, program: 300 },
  });
  await eventually("it is connected", async () => {
    return (await aggregator.request("list_servers")).servers[0].connected;
  });
  assertEquals(starts.length, 2);
  await aggregator.close();
});

Deno.test("mcp stdio: one that cannot be started is tried again, and its reason is shown", async () => {
  let tries = 0;
  const aggregator = await TestAggregator.start([stdio], {
    startStdio: () => {
      tries++;
      return Promise.reject(new Error("the limit of VMs is reached"));
    },
  });
  const { servers } = await aggregator.request("list_servers");
  assertEquals(servers[0].last_error, "the limit of VMs is reached");
  await eventually("it is tried again", () => tries > 1);
  await aggregator.close();
});

Deno.test("mcp stdio: starts are limited, whatever asks for them", async () => {
  const { start, starts } = starting([new ScriptedProgram()]);
  const aggregator = await TestAggregator.start([stdio], { startStdio: start });
  await aggregator.request("list_tools");
  const fetch = aggregator.client.fetchFor("files");
  const outcomes = await Promise.all(Array.from({ length: 40 }, () =>
    fetch("stdio:", { method: "GET" }).then(
      async ({ body }) => await body?.cancel(),
      ({ message }) => message,
    )));
  // A minute of the clock may end in between.
  assert(starts.length <= 20, `${starts.length} starts`);
  assertMatch(String(outcomes.at(-1)), /started 10 times within a minute/);
  await aggregator.close();
});

Deno.test("mcp stdio: the wire gives no other program, no other URL and no other method", async () => {
  const http = scriptedServer({});
  const { start, starts } = starting([new ScriptedProgram()]);
  const definitions = [
    stdio,
    definition("off", "", { stdio: true, enabled: false }),
    definition("web", http.url),
  ];
  const aggregator = await TestAggregator.start(definitions, { startStdio: start });
  await aggregator.request("list_tools");
  const attempt = (server: string, url: string, method: string, body?: string) =>
    aggregator.client.fetchFor(server)(url, { method, body }).then(
      ({ status }) => `HTTP ${status}`,
      ({ message }) => message,
    );
  assertEquals(await attempt("off", "stdio:", "GET"), "no enabled server has this name");
  for (const url of ["stdio:sh", "file:///etc/passwd", "data:,x", http.url, "stdio://host/"]) {
    assertEquals(await attempt("files", url, "GET"), "only stdio: is allowed for this server", url);
  }
  assertMatch(await attempt("web", "stdio:", "GET"), /^only http/);
  assertMatch(await attempt("files", "stdio:", "DELETE"), /not a method/);
  assertMatch(await attempt("files", "stdio:", "POST", '{"a":\n1}'), /one line/);
  assertEquals(starts, ["files"]);
  await Promise.all([aggregator.close(), http.close()]);
});

Deno.test("mcp stdio: lines that are no MCP are skipped, and one that is too long ends the program", async () => {
  const program = new ScriptedProgram(() => text("fine"));
  const { start } = starting([program]);
  const aggregator = await TestAggregator.start([stdio], { startStdio: start });
  await aggregator.request("list_tools");
  program.say("Server listening on stdio");
  assertEquals((await aggregator.call("files__do")).result, text("fine"));
  assertStringIncludes(aggregator.log.join("\n"), "not MCP");
  // It has no end.
  program.print("x".repeat(4 * 1024 * 1024 + 1));
  await eventually("it is disconnected", async () => {
    return !(await aggregator.request("list_servers")).servers[0].connected;
  });
  assertMatch(
    (await aggregator.request("list_servers")).servers[0].last_error,
    /a line of more than 4194304 bytes/,
  );
  assert(program.isClosed);
  await aggregator.close();
});

Deno.test("mcp stdio: a secret sent to another server is replaced in the output of a program", async () => {
  const ref = `credential:blake3:${"ab".repeat(32)}`;
  const secret = "tok-5ecret-0123456789";
  const http = scriptedServer({});
  const program = new ScriptedProgram(() => text(`it is ${secret}`));
  const aggregator = await TestAggregator.start([
    definition("web", http.url, { auth: { kind: "bearer", credential_ref: ref } }),
    stdio,
  ], { startStdio: starting([program]).start, resolve: () => Promise.resolve(secret) });
  await aggregator.request("list_tools");
  assertEquals((await aggregator.call("files__do")).result, text(`it is ${ref}`));
  await Promise.all([aggregator.close(), http.close()]);
});

Deno.test("mcp stdio: without a way to start programs the server is refused, and the others work", async () => {
  const http = scriptedServer({});
  const aggregator = await TestAggregator.start([stdio, definition("web", http.url)]);
  const { servers } = await aggregator.request("list_servers");
  assertMatch(servers[0].last_error, /VM of their own/);
  assert(servers[1].connected);
  await Promise.all([aggregator.close(), http.close()]);
});
