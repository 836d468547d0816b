/**
 * The program started by hand: lines in, lines out (docs/design/contracts/08-mcp.md §8, "Aggregator
 * protocol", "Aggregator errors").
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { resultLine } from "../../../lib/mcp/protocol.ts";
import { isDeeper } from "../../../lib/base/json/mod.ts";
import { boundedLog } from "../../../lib/mcp/aggregator/problem.ts";
import { limitChild } from "../../helper/child.ts";
import { definition, result, scriptedServer } from "../../helper/mcp_server.ts";
import { fromRoot } from "../../helper/repo.ts";
import type { Parsed } from "../../helper/json.ts";

/** Runs the program with this input until it ends. */
async function run(
  input: string,
): Promise<{ code: number; answers: Record<string, Parsed>[]; stderr: string }> {
  const child = limitChild(new Deno.Command(fromRoot("bin/sbx-mcp-aggregator"), {
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  })
    .spawn());
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  const ended = writer.close().catch(() => {});
  const { code, stdout, stderr } = await child.output();
  await ended;
  const lines = new TextDecoder().decode(stdout).split("\n");
  assertEquals(lines.pop(), "", "every answer ends with a newline");
  return { code, answers: lines.map((line) => JSON.parse(line)), stderr: new TextDecoder().decode(stderr) };
}

Deno.test("mcp protocol: each of the nine methods, ids echoed, errors as the tables say", async () => {
  const server = scriptedServer({
    call: ({ id, params }) => result(id, { content: [{ type: "text", text: params.arguments.say }] }),
  });
  const definitions = [definition("s", server.url), { ...definition("off", server.url), enabled: false }, {
    name: "a__b",
    url: server.url,
  }];
  const requests = [
    { id: 0, method: "list_servers" },
    { id: 1, method: "list_tools" },
    { id: 2, method: "list_resources" },
    { id: 3, method: "list_prompts" },
    { id: 4, method: "call_tool", params: { name: "s__do", arguments: { say: "hi" } } },
    { id: 5, method: "call_tool", params: { name: "none__do", arguments: {} } },
    { id: 6, method: "call_tool", params: { name: "off__do", arguments: {} } },
    { id: 7, method: "call_tool", params: { arguments: {} } },
    { id: 8, method: "dance" },
  ];
  const child = limitChild(new Deno.Command(fromRoot("bin/sbx-mcp-aggregator"), {
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn());
  const writer = child.stdin.getWriter();
  const send = (line: string) => writer.write(new TextEncoder().encode(`${line}\n`));
  await send(JSON.stringify(definitions));
  await send("not JSON");
  await send('{"id":-1,"method":"list_tools"}');
  await send('{"id":1.5,"method":"list_tools"}');
  await send('{"method":"list_tools"}');
  await send("");
  for (const request of requests) await send(JSON.stringify(request));
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.split("\n").length <= requests.length) text += (await reader.read()).value ?? "";
  await send(JSON.stringify({ id: 9, method: "refresh", params: { servers: [] } }));
  while (text.split("\n").length <= requests.length + 1) text += (await reader.read()).value ?? "";
  await send(JSON.stringify({ id: 10, method: "shutdown" }));
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
  assertEquals((await child.status).code, 0);
  await writer.close().catch(() => {});
  const stderr = await new Response(child.stderr).text();
  const answers = new Map(
    text.trimEnd().split("\n").map((line) => JSON.parse(line)).map((answer) => [answer.id, answer]),
  );
  assertEquals([...answers.keys()].sort((a, b) => a - b), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assertEquals(answers.get(0).servers.map((s: Parsed) => [s.name, s.connected, s.tool_count]), [[
    "s",
    true,
    1,
  ], [
    "off",
    false,
    0,
  ]]);
  assertEquals(Object.keys(answers.get(1)), ["id", "tools"]);
  assertEquals(Object.keys(answers.get(1).tools[0]), [
    "namespaced_name",
    "original_name",
    "description",
    "input_schema",
    "server_name",
    "annotations",
    "pin_hash",
    "pin_changed",
  ]);
  assertEquals([answers.get(2), answers.get(3)], [{ id: 2, resources: [] }, { id: 3, prompts: [] }]);
  assertEquals(answers.get(4), { id: 4, result: { content: [{ type: "text", text: "hi" }] } });
  assertEquals(answers.get(5), { id: 5, error: 'unknown server "none"' });
  assertEquals(answers.get(6), { id: 6, error: 'server "off" is disabled' });
  assertMatch(answers.get(7).error, /^invalid params of call_tool: name/);
  assertEquals(answers.get(8), { id: 8, error: 'unknown method "dance"' });
  assertEquals([answers.get(9), answers.get(10)], [{ id: 9, ok: true }, { id: 10, ok: true }]);
  assertMatch(stderr, /server "a__b" is invalid: name must not contain __/);
  assertEquals(stderr.match(/skipped a malformed line/g)?.length, 5);
  await server.close();
});

Deno.test("mcp protocol: the input ends inside a line, is empty, or begins without definitions", async () => {
  const cut = await run('[]\n{"id":1,"met');
  assertEquals([cut.code, cut.answers], [0, []]);
  assertMatch(cut.stderr, /input ended inside a line/);
  assertEquals((await run("")).code, 0);
  for (const first of ["{}", "nonsense", `["${"x".repeat(1024 * 1024)}"]`, "[1,2]"]) {
    const { code, answers } = await run(`${first}\n{"id":7,"method":"shutdown"}\n`);
    assertEquals([code, answers], [0, [{ id: 7, ok: true }]], first.slice(0, 20));
  }
});

Deno.test("mcp protocol: requests that are pending at shutdown are answered with an error before it", async () => {
  const called = Promise.withResolvers<void>();
  const server = scriptedServer({
    call: () => {
      called.resolve();
      return new Promise<Response>(() => {});
    },
  });
  for (const end of ["shutdown", "EOF"]) {
    const child = limitChild(new Deno.Command(fromRoot("bin/sbx-mcp-aggregator"), {
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn());
    const writer = child.stdin.getWriter();
    const send = (value: unknown) => writer.write(new TextEncoder().encode(`${JSON.stringify(value)}\n`));
    await send([definition("s", server.url)]);
    for (const id of [1, 2]) {
      await send({ id, method: "call_tool", params: { name: "s__do", arguments: {} } });
    }
    await called.promise;
    if (end === "shutdown") await send({ id: 3, method: "shutdown" });
    else await writer.close();
    const { code, stdout } = await child.output();
    await writer.close().catch(() => {});
    const error = "the MCP aggregator is shutting down";
    const answers = new TextDecoder().decode(stdout).trimEnd().split("\n").map((line) => JSON.parse(line));
    const expected = [{ id: 1, error }, { id: 2, error }];
    assertEquals([code, answers], [0, end === "shutdown" ? [...expected, { id: 3, ok: true }] : expected]);
  }
  await server.close();
});

Deno.test("mcp protocol: a line of 1 MB is read, a longer one is skipped and logged", async () => {
  const padded = (bytes: number) => {
    const line = '{"id":1,"method":"dance","params":""}';
    return line.replace('""', `"${"x".repeat(bytes - line.length)}"`);
  };
  const max = 1024 * 1024;
  const fits = await run(`[]\n${padded(max)}\n{"id":2,"method":"shutdown"}\n`);
  assertEquals(fits.answers.map(({ id }) => id), [1, 2]);
  const over = await run(`[]\n${padded(max + 1)}\n{"id":2,"method":"shutdown"}\n`);
  assertEquals(over.answers, [{ id: 2, ok: true }]);
  assertMatch(over.stderr, /line of 1048577 bytes exceeds the limit of 1048576 bytes/);
});

Deno.test("mcp protocol: a result that cannot be serialized is a JSON-RPC error", () => {
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const failure = JSON.parse(resultLine(3, circle));
  assertEquals([failure.jsonrpc, failure.id, failure.error.code], ["2.0", 3, -32603]);
  assertEquals(
    JSON.parse(resultLine(4, { a: "x".repeat(2_000_000) })).error,
    "the result has 2000026 bytes, and at most 1048576 can be passed on: ask the server for less, or let it return a link to a resource",
  );
  assertEquals(isDeeper('[[["]]][[[["]]]', 3), false);
  assertEquals(isDeeper('[[["\\"[[["]]]', 3), false);
  assertEquals(isDeeper('[[["\\\\",[]]]]', 3), true);
});

Deno.test("mcp protocol: the log is bounded, and counts suppressed lines", () => {
  const lines: string[] = [];
  let now = 0;
  const log = boundedLog((line) => lines.push(line), () => now);
  for (let n = 0; n < 1000; n++) log(`line\n\u0007${n}`);
  assertEquals(lines.length, 120);
  assertEquals(lines[0], "line 0");
  now = 60_000;
  log("x".repeat(1000));
  assert(lines[121].length < 600);
  assertEquals(lines[120], "880 more lines suppressed");
});
