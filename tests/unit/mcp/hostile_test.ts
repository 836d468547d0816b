/**
 * Servers that misbehave: each causes an error for its own caller, bounded in time
 * and bytes, and affects no other.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Timeouts } from "../../../lib/mcp/aggregator/mod.ts";
import { TestAggregator } from "../../helper/mcp_aggregator.ts";
import {
  definition,
  type Loopback,
  result,
  type Script,
  scriptedServer,
  tool,
} from "../../helper/mcp_server.ts";
import type { Parsed } from "../../helper/json.ts";
import { eventually } from "../../helper/sbx.ts";

const MB = 1024 * 1024;

/** Limits that no answer reaches on a busy machine, and limits in `ms` for servers that never answer. */
const PATIENT: Partial<Timeouts> = { connect: 60_000, request: 60_000, call: 60_000 };
const LATE_MS = 3000;
const CALL_LATE = { ...PATIENT, call: LATE_MS };

/** Runs a scripted server beside a good one, which has to keep working. */
async function beside(
  script: Script,
  check: (aggregator: TestAggregator, bad: Loopback) => Promise<void>,
  timeouts = PATIENT,
) {
  const bad = scriptedServer(script);
  const good = scriptedServer({
    call: ({ id }) => result(id, { content: [{ type: "text", text: "fine" }] }),
  });
  const servers = [definition("bad", bad.url), definition("good", good.url)];
  const aggregator = await TestAggregator.start(servers, { timeouts });
  try {
    const [{ result: answer }] = await Promise.all([aggregator.call("good__do"), check(aggregator, bad)]);
    assertEquals(answer, { content: [{ type: "text", text: "fine" }] });
  } finally {
    await aggregator.close();
    await Promise.all([bad.close(), good.close()]);
  }
}

/** An endless body that repeats one piece. */
function endless(piece: string): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(piece);
  return new ReadableStream({ pull: (to) => to.enqueue(bytes) });
}
const SSE = { headers: { "content-type": "text/event-stream" } };
const JSON_TYPE = { headers: { "content-type": "application/json" } };
const silence = () => new ReadableStream<Uint8Array>({});

const CALLS: [string, NonNullable<Script["call"]>, RegExp, Partial<Timeouts>?][] = [
  ["hangs without an answer", () => new Promise<Response>(() => {}), /did not answer in time/, CALL_LATE],
  ["hangs within its answer", () => new Response(silence(), SSE), /did not answer in time/, CALL_LATE],
  [
    "streams for ever",
    () => new Response(endless(`: ${"x".repeat(65536)}\n\n`), SSE),
    /exceeds 4194304 bytes/,
  ],
  [
    "answers with JSON that never ends",
    () => new Response(endless("[".repeat(65536)), JSON_TYPE),
    /exceeds 4194304 bytes/,
  ],
  [
    "answers with 10 MB",
    ({ id }) => result(id, { content: [{ type: "text", text: "x".repeat(10 * MB) }] }),
    /exceeds 4194304 bytes/,
  ],
  [
    "answers with more than a line",
    ({ id }) => result(id, { content: [{ type: "text", text: "x".repeat(MB) }] }),
    /the result has \d+ bytes, and at most 1048576 can be passed on/,
  ],
  ["answers with invalid JSON", () => new Response("{nonsense", JSON_TYPE), /not valid MCP/],
  [
    "answers with invalid JSON in an event",
    () => new Response("data: {nonsense\n\n", SSE),
    /ended without an answer/,
  ],
  ["answers with another's id", ({ id }) => result(id + 1000, { content: [] }), /ended without an answer/],
  ["answers with no JSON-RPC", () => Response.json({ hello: 1 }), /not valid MCP/],
  [
    "answers with HTML",
    () => new Response("<html>", { headers: { "content-type": "text/html" } }),
    /Unexpected content type/,
  ],
  [
    "answers with an error",
    ({ id }) => Response.json({ jsonrpc: "2.0", id, error: { code: -32602, message: "no\nsuch\u0007" } }),
    /error -32602: no such$/,
  ],
  [
    "answers with something that is not a result",
    ({ id }) => result(id, { content: "text" }),
    /not a tool result/,
  ],
  [
    "refuses the credential mid-session",
    () => new Response("secret words", { status: 401 }),
    /credential.*HTTP 401/,
  ],
  ["falls over", () => new Response("a".repeat(5000), { status: 500 }), /HTTP 500: a{300}…$/],
  [
    "sends the caller elsewhere",
    () => new Response(null, { status: 307, headers: { location: "http://169.254.169.254/" } }),
    /not followed/,
  ],
];
for (const [what, call, expected, timeouts] of CALLS) {
  Deno.test(`mcp: a server that ${what}`, () =>
    beside({ call }, async (aggregator) => {
      assertMatch((await aggregator.call("bad__do")).error, expected);
    }, timeouts));
}

Deno.test("mcp: a result nested too deep is a JSON-RPC error", () =>
  beside({
    call: ({ id }) =>
      new Response(
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"x":${"[".repeat(200_000)}${
          "]".repeat(200_000)
        }}}`,
        JSON_TYPE,
      ),
  }, async (aggregator) => {
    const answer = await aggregator.call("bad__do");

    assertEquals(answer.jsonrpc, "2.0");
    assertEquals(answer.error.code, -32603);
  }));

Deno.test("mcp: invalid entries of a list are omitted, each with a line in the log", () =>
  beside({
    tools: [
      tool("twice", "first"),
      tool("twice", "second"),
      tool("a__b"),
      tool("with space"),
      tool("🦀"),
      tool("x".repeat(200)),
      tool("in\u202evisible"),
      tool("long", "d".repeat(MB)),
      { name: "fat", inputSchema: { type: "object", x: "y".repeat(200_000) } },
      { name: "odd", inputSchema: "no" },
      { inputSchema: {} },
      "no object",
    ],
  }, async (aggregator) => {
    const { tools } = await aggregator.request("list_tools");
    const bad = tools.filter((entry: Parsed) => entry.server_name === "bad");
    assertEquals(bad.map((entry: Parsed) => entry.namespaced_name), [
      "bad__twice",
      "bad__a__b",
      "bad__with space",
      "bad__🦀",
      "bad__long",
    ]);
    assertEquals(bad[0].description, "first");
    assertMatch(bad[4].description, /^d{16384}… \(cut off by sbx after 16384 of 1048576 characters\)$/);
    assertEquals((await aggregator.call("bad__a__b")).result, { content: [] });
    assertMatch((await aggregator.call("bad__odd")).error, /no tool "odd"/);
    assertEquals(aggregator.log.filter((line) => line.startsWith('server "bad"')).length, 7);
  }));

Deno.test("mcp: an endless list is read up to the limit, and a repeated cursor ends it", async () => {
  let pages = 0;
  await beside(
    { list: () => ({ tools: [tool(`t${pages}`)], nextCursor: `${++pages}` }) },
    async (aggregator) => {
      const { servers } = await aggregator.request("list_servers");
      assertEquals(servers[0].tool_count, 100);
    },
  );
  assertEquals(pages, 100);
  await beside({ list: () => ({ tools: [tool("a")], nextCursor: "again" }) }, async (aggregator) => {
    assertEquals((await aggregator.request("list_servers")).servers[0].tool_count, 1);
  });
});

Deno.test("mcp: a server that ends its own stream at once is reconnected with a pause", () =>
  beside({ stream: () => new Response("retry: 0\nid: 1\n\n", SSE) }, async (aggregator, bad) => {
    await aggregator.request("list_tools");
    const opened = () => bad.requests.filter(({ method }) => method === "GET").length;
    await eventually("its stream is opened", () => opened() > 0);
    await new Promise((resolve) => setTimeout(resolve, 1200));
    assert(opened() <= 4, `${opened()} streams in 1.2 s`);
  }));

Deno.test("mcp: an endless event on a server's own stream affects that stream only", () =>
  beside({
    stream: () => new Response(endless("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"), SSE),
  }, async (aggregator) => {
    assertEquals((await aggregator.call("bad__do")).result, { content: [] });
  }));

Deno.test("mcp: a server that never answers initialize delays the first lists until its timeout, but no call", async () => {
  const began = performance.now();
  let called = 0;
  await beside({ initialize: () => new Promise<Response>(() => {}) }, async (aggregator) => {
    await aggregator.call("good__do");
    called = performance.now() - began;
    const { servers } = await aggregator.request("list_servers");
    const { tools } = await aggregator.request("list_tools");
    assertEquals(tools.length, 1);
    assertEquals(servers[0].connected, false);
    assertMatch(servers[0].last_error, /did not answer in time/);
    assertMatch(
      (await aggregator.call("bad__do")).error,
      /"bad": not connected: the server did not answer in time/,
    );
  }, { ...PATIENT, connect: LATE_MS });
  assert(called < LATE_MS, `a call to the good server took ${called} ms`);
});
