/** The driver and the real process: crashes, refreshes, cancellation, progress, and a missing program. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { z } from "zod";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { AnswerParts } from "../../../lib/mcp/driver/process.ts";
import { PARTS_TOTAL_MAX, RESULT_BYTES_MAX } from "../../../lib/mcp/limit.ts";
import type { Progress } from "../../../lib/mcp/mod.ts";
import { withAggregator } from "../../helper/mcp_driver.ts";
import { definition, result, scriptedServer, sdkServer, tool } from "../../helper/mcp_server.ts";
import { eventually } from "../../helper/sbx.ts";
import type { Parsed } from "../../helper/json.ts";

const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });

Deno.test("mcp driver: tools, resources and prompts of two servers under namespaced names", async () => {
  const servers = ["one", "two"].map((name) =>
    sdkServer((server) => {
      server.registerTool(
        "say__it",
        {
          description: `says it as ${name}`,
          inputSchema: { what: z.string() },
          annotations: { readOnlyHint: true },
        },
        ({ what }: { what: string }) => text(`${name}: ${what}`),
      );
      server.registerResource(
        "note",
        "note://a/b",
        { description: "a note", mimeType: "text/plain" },
        () => ({
          contents: [{ uri: "note://a/b", text: name }],
        }),
      );
      server.registerPrompt("ask", { argsSchema: { who: z.string() } }, ({ who }: { who: string }) => ({
        messages: [{ role: "user", content: { type: "text", text: `${name} asks ${who}` } }],
      }));
    })
  );
  const definitions = [
    definition("one", servers[0].url),
    definition("two", servers[1].url),
    definition("off", servers[1].url, { enabled: false }),
    definition("local", "", { unsupported_stdio: true }),
  ];
  await withAggregator(definitions, async (aggregator) => {
    const tools = await aggregator.listTools();
    assertEquals(tools.map((entry) => entry.namespaced_name), ["one__say__it", "two__say__it"]);
    assertEquals(tools[0].annotations, { readOnlyHint: true });
    assertMatch(tools[0].pin_hash, /^[0-9a-f]{64}$/);
    assertEquals(await aggregator.callTool("two__say__it", { what: "hi" }), text("two: hi"));
    const resources = await aggregator.listResources();
    assertEquals(resources.map((entry) => entry.namespaced_uri), [
      "sbx://one/note://a/b",
      "sbx://two/note://a/b",
    ]);
    const read: Parsed = await aggregator.readResource("sbx://two/note://a/b");
    assertEquals(read.contents[0].text, "two");
    assertEquals((await aggregator.listPrompts())[0].arguments, [{ name: "who", required: true }]);
    const prompt: Parsed = await aggregator.getPrompt("one__ask", { who: "you" });
    assertEquals(prompt.messages[0].content.text, "one asks you");
    const statuses = await aggregator.listServers();
    assertEquals(statuses.map(({ name, connected, enabled }) => [name, connected, enabled]), [
      ["one", true, true],
      ["two", true, true],
      ["off", false, false],
      ["local", false, true],
    ]);
    assertMatch(statuses[3].last_error!, /stdio servers are not supported/);
    const missing = await assertRejects(() => aggregator.callTool("one__none", {}), SbxError);
    assertEquals(missing.code, "mcp.tool.not_found");
  });
  await Promise.all(servers.map((server) => server.close()));
});

Deno.test("mcp driver: a process killed during ten calls fails them all, restarts and serves", async () => {
  let waiting: (() => void)[] = [];
  const server = scriptedServer({
    call: ({ id, params }) =>
      params.arguments.wait
        ? new Promise((resolve) => waiting.push(() => resolve(result(id, text("late")))))
        : result(id, text("now")),
  });
  await withAggregator([definition("s", server.url)], async (aggregator, log) => {
    await aggregator.listTools();
    const first = aggregator.pid!;
    const calls = Array.from(
      { length: 10 },
      () => aggregator.callTool("s__do", { wait: true }).then(() => "answered", (error) => error.code),
    );
    await eventually("ten calls wait", () => waiting.length === 10);
    Deno.kill(first, "SIGKILL");
    assertEquals(await Promise.all(calls), Array(10).fill("mcp.channel_closed"));
    const at = await assertRejects(() => aggregator.callTool("s__do", {}), SbxError);
    assertEquals(at.code, "mcp.channel_closed");
    await eventually("a new process runs", () => aggregator.pid !== undefined && aggregator.pid !== first);
    assertEquals(await aggregator.callTool("s__do", {}), text("now"));
    assertMatch(log.join("\n"), /sbx-mcp-aggregator exited; restarting in 250 ms/);
    waiting.forEach((answer) => answer());
    waiting = [];
  });
  await server.close();
});

Deno.test("mcp driver: a refresh during calls fails them, and brings the new catalogue", async () => {
  let waiting = 0;
  const old = scriptedServer({
    call: () => {
      waiting++;
      return new Promise<Response>(() => {});
    },
  });
  const fresh = scriptedServer({ tools: [tool("new")], call: ({ id }) => result(id, text("fresh")) });
  await withAggregator([definition("old", old.url)], async (aggregator) => {
    const changes: string[] = [];
    aggregator.watch((kind) => changes.push(kind));
    const calls = [1, 2, 3].map(() => assertRejects(() => aggregator.callTool("old__do", {}), SbxError));
    await eventually("three calls wait", () => waiting === 3);
    await aggregator.refresh([definition("fresh", fresh.url)]);
    for (const error of await Promise.all(calls)) {
      assertEquals(error.code, "mcp.failed");
      assertMatch(error.message, /server "old": the connection was closed/);
    }
    assertEquals((await aggregator.listTools()).map((entry) => entry.namespaced_name), ["fresh__new"]);
    assertEquals(await aggregator.callTool("fresh__new", {}), text("fresh"));
    assert(changes.includes("tools"));
  });
  await Promise.all([old.close(), fresh.close()]);
});

Deno.test("mcp driver: a cancelled call is cancelled at the server, and an unanswered one times out", async () => {
  const server = scriptedServer({ call: () => new Promise<Response>(() => {}) });
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    const abort = new AbortController();
    const cancelled = assertRejects(
      () => aggregator.callTool("s__do", {}, { signal: abort.signal }),
      Error,
      "enough",
    );
    const heard = (method: string) => server.messages.some((message) => message.method === method);
    await eventually("the call arrived", () => heard("tools/call"));
    abort.abort(new Error("enough"));
    await cancelled;
    await eventually("the server heard of it", () => heard("notifications/cancelled"));
  });
  // Its own aggregator: a busy machine takes longer than this limit to bring the call to the server.
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    const late = await assertRejects(() => aggregator.callTool("s__do", {}), SbxError);
    assertEquals(late.code, "mcp.timeout");
  }, { timeouts: { request: 5000, call: 300 } });
  await server.close();
});

Deno.test("mcp driver: progress of a call reaches its caller", async () => {
  const server = sdkServer((server) => {
    server.registerTool("work", {}, async (extra) => {
      for (const progress of [1, 2, 3]) {
        await extra.sendNotification({
          method: "notifications/progress",
          params: {
            progressToken: extra._meta!.progressToken!,
            progress,
            total: 3,
            message: `step ${progress}`,
          },
        });
      }
      return text("done");
    });
  });
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    const seen: Progress[] = [];
    const answer = await aggregator.callTool("s__work", {}, { progress: (progress) => seen.push(progress) });
    assertEquals(answer, text("done"));
    assertEquals(seen, [1, 2, 3].map((progress) => ({ progress, total: 3, message: `step ${progress}` })));
  });
  await server.close();
});

Deno.test("mcp driver: a changed list is fetched again, and a server that returns is reconnected", async () => {
  const tools = [tool("a")];
  let notify = (_text: string) => {};
  const script = {
    tools: () => tools,
    stream: () =>
      new Response(
        new ReadableStream({
          start: (to) => void (notify = (text) => to.enqueue(new TextEncoder().encode(text))),
        }),
        { headers: { "content-type": "text/event-stream" } },
      ),
  };
  const server = scriptedServer(script);
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    const names = async () => (await aggregator.listTools()).map((entry) => entry.original_name).join();
    assertEquals(await names(), "a");
    tools.push(tool("b"));
    notify(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n`);
    await eventually("the new tool is listed", async () => await names() === "a,b");
    await server.close();
    const gone = await assertRejects(() => aggregator.callTool("s__a", {}), SbxError);
    assertEquals(gone.code, "mcp.failed");
    tools.shift();
    const again = scriptedServer(script, server.port);
    await eventually("it is connected again", async () => (await aggregator.listServers())[0].connected);
    await eventually("what it offers now is listed", async () => await names() === "b");
    await again.close();
  });
});

Deno.test("mcp driver: after a server forgot its session, a new one begins and the call is repeated", async () => {
  let sessions = 0;
  let known = "";
  const server = scriptedServer({
    initialize: () => {
      known = `session-${++sessions}`;
      const headers = { "mcp-session-id": known };
      const value = {
        protocolVersion: "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "s", version: "1" },
      };
      return Response.json({ jsonrpc: "2.0", id: 0, result: value }, { headers });
    },
    call: ({ id }, request) =>
      request.headers.get("mcp-session-id") === known
        ? result(id, text("ok"))
        : new Response("who?", { status: 404 }),
  });
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    assertEquals(await aggregator.callTool("s__do", {}), text("ok"));
    known = "another";
    assertEquals(await Promise.all([1, 2].map(() => aggregator.callTool("s__do", {}))), [
      text("ok"),
      text("ok"),
    ]);
    assertEquals(sessions, 2);
  });
  await server.close();
});

Deno.test("mcp driver: without the program catalogues are empty, and calls fail with the reason", async () => {
  await withAggregator([definition("s", "https://example.com/mcp")], async (aggregator) => {
    assertEquals(await aggregator.listTools(), []);
    assertEquals(await aggregator.listResources(), []);
    assertEquals(await aggregator.listPrompts(), []);
    assertEquals((await aggregator.listServers())[0].last_error, "sbx-mcp-aggregator is not installed");
    const error = await assertRejects(() => aggregator.callTool("s__do", {}), SbxError);
    assertMatch(error.message, /not installed/);
    await aggregator.refresh([]);
  }, { command: null });
});

Deno.test("mcp driver: a program that exits at once or writes nonsense causes errors only", async () => {
  for (const script of ["exit 3", "echo nonsense; echo '[1]'; exit 0"]) {
    await withAggregator([definition("s", "https://example.com/mcp")], async (aggregator) => {
      const error = await assertRejects(() => aggregator.listTools(), SbxError);
      assertEquals(error.code, "mcp.channel_closed");
    }, { command: ["/bin/sh", "-c", script] });
  }
});

Deno.test("mcp driver: a result over a line comes whole, in parts", async () => {
  const MB = 1024 * 1024;
  const shown = { type: "image", mimeType: "image/png", data: "iVBOR/+A".repeat(3 * MB / 8) };
  // Quotes and backslashes double within a part; a pair may be cut between two parts.
  const odd = { type: "text", text: '"\\'.repeat(100_000) + "\u{1f600}\u00e9".repeat(100_000) };
  const server = scriptedServer({ call: ({ id }) => result(id, { content: [shown, odd] }) });
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    const calls: Parsed[] = await Promise.all([1, 2, 3].map(() => aggregator.callTool("s__do", {})));
    for (const { content } of calls) {
      assert(content[0].data === shown.data);
      assert(content[1].text === odd.text);
    }
  });
  await server.close();
});

Deno.test("mcp driver: a result over 4 MiB fails with its size, and the next call works", async () => {
  let size = 4 * 1024 * 1024;
  const server = scriptedServer({
    call: ({ id }) => result(id, { content: [{ type: "text", text: "x".repeat(size) }] }),
  });
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    const error = await assertRejects(() => aggregator.callTool("s__do", {}), SbxError);
    assertMatch(error.message, /the response exceeds 4194304 bytes: ask the server for less/);
    size = 10;
    assertEquals(await aggregator.callTool("s__do", {}), text("x".repeat(10)));
  });
  await server.close();
});

Deno.test("mcp driver: parts that do not fit together, or are too many, are not held", () => {
  const parts = new AnswerParts();
  const part = (id: number, at: number, value: string, last = false) => ({ id, part: at, text: value, last });
  assertEquals(parts.add(1, part(1, 0, "a")), undefined);
  assertEquals(parts.add(2, part(2, 0, "c", true)), "c");
  assertEquals(parts.add(1, part(1, 1, "b", true)), "ab");
  const wrong = [part(1, 1, "b"), { id: 1, part: 0, text: 7, last: false }, { ...part(1, 0, "a"), more: 1 }];
  for (const value of wrong) assertThrows(() => parts.add(1, value), SbxError, "do not fit together");
  const half = "x".repeat(RESULT_BYTES_MAX / 2);
  parts.add(1, part(1, 0, half));
  parts.add(1, part(1, 1, half));
  assertThrows(() => parts.add(1, part(1, 2, "x")), SbxError, "more than");
  const answers = PARTS_TOTAL_MAX / half.length;
  for (let id = 1; id <= answers; id++) parts.add(id, part(id, 0, half));
  assertThrows(() => parts.add(answers + 1, part(answers + 1, 0, "x")), SbxError, "on their way");
  parts.drop(1);
  assertEquals(parts.add(answers + 1, part(answers + 1, 0, "x", true)), "x");
});

Deno.test("mcp driver: a call waits for a program that has listed nothing yet", async () => {
  const tool = `{"server_name":"s","original_name":"do","namespaced_name":"s__do","input_schema":{}}`;
  const answers = [
    `"tools":[]`,
    `"result":{"connected":true}`,
    `"tools":[${tool}]`,
    `"result":{"content":[]}`,
  ];
  // Answers the requests in their order; their ids count from 1.
  const script = `read definitions; ${
    answers.map((answer, at) => `read request; echo '{"id":${at + 1},${answer}}'`).join("; ")
  }; read request`;
  await withAggregator([definition("s", "", { stdio: true })], async (aggregator) => {
    assertEquals(await aggregator.callTool("s__do", {}), { content: [] });
  }, { command: ["/bin/sh", "-c", script] });
});
