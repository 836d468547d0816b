/** Responses on their way to the guest: what rules see of them and when, and what their events say. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import type { HttpEvent } from "../../../lib/event/mod.ts";
import { WHOLE_RESPONSE_MAX } from "../../../lib/network/limit.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";
import { RawUpstreams, upgradeHead } from "../../helper/websocket.ts";

const HOST = "api.example.com";
const block = (match: string) => `[profiles.rules.no]\nname = "no"\naction = "block"\nmatch = '${match}'\n`;

/** Asks once. @param pieces of the answer, after which the upstream closes its connection */
async function ask(
  pieces: (string | Uint8Array)[],
  { rules, method = "GET" }: { rules?: string; method?: string } = {},
) {
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    for (const piece of pieces) await client.send(piece);
  });
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const client = await net.client();
  const got = await client.ask(`${method} / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`, method).catch(() =>
    undefined
  );
  client.close();
  await net.idle();
  upstream.close();
  const [{ decision, outcome }] = net.gate.entries;
  const response = outcome?.response as HttpEvent["response"];
  return { got, decision: decision!.decision, error: outcome?.error, response: response! };
}

const headOf = (more: string, type = "text/plain") =>
  `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\n${more}\r\n\r\n`;
const whole = (body: string) => [headOf(`content-length: ${body.length}`), body];
const chunks = (body: string, end = "0\r\n\r\n") => [
  headOf("transfer-encoding: chunked"),
  `${body.length.toString(16)}\r\n${body}\r\n`,
  end,
];

Deno.test("the event of a response has its size, its text, and whether that is all of it", async (t) => {
  const long = "x".repeat(WHOLE_RESPONSE_MAX);
  const cases: [
    name: string,
    pieces: string[],
    want: [bytes: number, text: number | undefined, truncated: boolean, error: string | undefined],
  ][] = [
    ["whole", whole("hello"), [5, 5, false, undefined]],
    ["of the limit", whole(long), [long.length, long.length, false, undefined]],
    ["over the limit", whole(long + "y"), [long.length + 1, long.length, true, undefined]],
    ["in chunks", chunks("hello"), [5, 5, false, undefined]],
    ["in chunks, and cut", chunks("hello", ""), [
      5,
      5,
      true,
      "the upstream closed the connection within a body",
    ]],
    ["in chunks, and nothing", [headOf("transfer-encoding: chunked"), "0\r\n\r\n"], [
      0,
      undefined,
      false,
      undefined,
    ]],
    ["until the end", [headOf("x: y"), "hello"], [5, 5, false, undefined]],
  ];
  for (const [name, pieces, want] of cases) {
    await t.step(name, async () => {
      const { response: { status, bytes, body, headers }, error } = await ask(pieces);
      assertEquals([bytes, body.text?.length, body.truncated, error], want);
      assertEquals([status, body.size, body.content_type], [200, bytes, "text/plain"]);
      assertEquals(headers["content-type"], ["text/plain"]);
    });
  }
});

Deno.test("rules see a short response whole, and of a long one the head alone", async (t) => {
  const long = "bad".repeat(WHOLE_RESPONSE_MAX);
  const text = 'http.response.body.text.contains("bad")';
  const cases: [name: string, rule: string, pieces: string[], isBlocked: boolean][] = [
    ["the text of a short one", text, whole("bad"), true],
    ["the text of a long one", `has(http.response.body.text) && ${text}`, whole(long), false],
    ["the size of a short one", "http.response.bytes == 3", whole("bad"), true],
    ["the size of a long one", "http.response.bytes != 0", whole(long), false],
    ["that a short one is whole", "http.response.body.truncated", whole("bad"), false],
    ["that a long one is not", "http.response.body.truncated", whole(long), true],
    ["that chunks are not", "http.response.body.truncated", chunks("bad"), true],
    ["the status of a long one", "http.response.status == 200", whole(long), true],
  ];
  for (const [name, rule, pieces, isBlocked] of cases) {
    await t.step(name, async () => {
      const { got, decision, error } = await ask(pieces, { rules: block(rule) });
      assertEquals([got?.status, decision], isBlocked ? [403, "block"] : [200, "allow"]);
      assertEquals(error, isBlocked ? "blocked by policy" : undefined);
    });
  }
});

Deno.test("a body that rules read and that nobody can decode is not relayed", async () => {
  const body = gzipSync("hello").subarray(0, 20);
  const pieces = [headOf(`content-encoding: pack\r\ncontent-length: ${body.length}`), body];
  const { got, error } = await ask(pieces, { rules: block('http.response.body.text.contains("x")') });
  assertEquals(got?.status, 502);
  assertStringIncludes(error!, "an encoding that hides its body from rules");
  assertEquals((await ask(pieces)).got?.status, 200);
});

Deno.test("the length that an answer to HEAD declares reaches the guest", async () => {
  const { got, response } = await ask([headOf("content-length: 123")], { method: "HEAD" });
  assertEquals([got!.headers.get("content-length"), response.bytes, response.body.state], [
    "123",
    0,
    "missing",
  ]);
  assertEquals((await ask([headOf("x: y")], { method: "HEAD" })).got!.headers.get("content-length"), null);
});

Deno.test("the trailers of a response reach the guest, without those that may not trail", async () => {
  const { got } = await ask(chunks("hello", "0\r\nx-sum: 1\r\nset-cookie: a=b\r\nhost: evil\r\n\r\n"));
  assertEquals([got!.body, got!.trailers], ["hello", "x-sum: 1\r\n"]);
});

Deno.test("a WebSocket is reviewed by the head of its response", async () => {
  const upstreams = new RawUpstreams();
  await using net = await TestNet.open({
    rules: block("http.response.status == 101 && http.response.bytes == 0"),
    target: upstreams.target,
  });
  const upstream = await upstreams.open(net, HOST, async (client) => void await client.rest());
  const client = await net.tls(HOST);
  assertEquals((await client.ask(upgradeHead(HOST, "/"))).status, 403);
  client.close();
  await net.idle();
  const [{ decision, outcome }] = net.gate.entries;
  assertEquals([decision!.decision, outcome!.error], ["block", "blocked by policy"]);
  assertEquals((outcome!.response as HttpEvent["response"])!.status, 101);
  upstream.close();
});
