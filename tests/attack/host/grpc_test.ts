/**
 * gRPC of a hostile guest: a request that only says it is a call, so that its body or
 * its answer is read less strictly.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { ModelReader } from "../../../lib/network/model/mod.ts";
import { GOOGLE, RULES as MODEL_RULES } from "../../helper/model_attack.ts";
import { ALL, KEY, world } from "../../helper/credential.ts";
import { h2Fields, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const RULES = `[profiles.rules.no-answer]
name = "no answer"
action = "block"
match = 'http.response.body.text.contains("classified")'

[profiles.rules.no-words]
name = "no words"
action = "block"
match = 'http.request.body.text.contains("forbidden")'

[profiles.rules.no-call]
name = "no call"
action = "block"
match = 'http.request.grpc.service == "bank.Money"'
`;

async function asked(path: string, type: string, body: string, rules = RULES) {
  const seen: string[] = [];
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    seen.push(await request.text());
    const json = { "content-type": "application/json" };
    return new Response('{"text":"classified"}', { headers: json });
  });
  const target = { hostname: "127.0.0.1", port: upstream.addr.port };
  await using net = await TestNet.open({ target: () => target, rules });
  using client = await RawHttp2.open(net);
  const fields = h2Fields({ ":method": "POST", ":path": path, "content-type": type });
  await client.send(
    h2Request(1, fields, h2.END_HEADERS),
    h2.frame(h2.DATA, h2.END_STREAM, 1, new TextEncoder().encode(body)),
  );
  const end = await client.end();
  client.conn.close();
  await net.idle();
  return { end, seen, rule: net.gate.entries.at(-1)?.decision?.rule.id };
}

const statusOf = ({ fields }: { fields?: [string, string][] }) =>
  fields?.find(([name]) => name === "grpc-status")?.[1];

Deno.test("an answer that is no gRPC is held and searched as any other", async () => {
  const { end } = await asked("/a.B/C", "application/grpc", "x");
  assertEquals(end.body.includes("classified"), false);
  assertEquals(statusOf(end), "7");
});

Deno.test("a body that is no message is decided on whole", async () => {
  const { end, seen, rule } = await asked("/a.B/C", "application/grpc", '{"text":"forbidden"}');
  assertEquals([seen, rule, statusOf(end)], [[], "no-words", "7"]);
});

Deno.test("no spelling of the content type hides a call that a server would take", async () => {
  for (
    const type of [
      "application/grpc",
      "Application/gRPC+proto",
      " application/grpc;a=b",
      "application/grpc-web",
    ]
  ) {
    const { seen, rule } = await asked("/bank.Money/Send", type.trim(), "");
    assertEquals([seen, rule], [[], "no-call"], type);
  }
  const { end } = await asked("/bank.Money/Send", "text/plain", "", "");
  assert(end.status === 200);
  assertStringIncludes(end.body, "classified");
});

/** A message without bytes, which a rule on bodies would see alone. */
const EMPTY = "\0".repeat(5);

Deno.test("a body that cannot be a call's stream is decided on as any other", async (t) => {
  const types = "content-type: application/grpc\r\n";
  const cases: [name: string, send: (net: TestNet) => Promise<void>][] = [
    ["by HTTP/2 with a length", async (net) => {
      using client = await RawHttp2.open(net);
      const body = `${EMPTY}forbidden`;
      const fields = { ":method": "POST", ":path": "/a.B/C", "content-type": "application/grpc" };
      await client.send(
        h2Request(1, h2Fields({ ...fields, "content-length": `${body.length}` }), h2.END_HEADERS),
        h2.frame(h2.DATA, 0, 1, new TextEncoder().encode(EMPTY)),
        h2.frame(h2.PING, 0, 0, new Uint8Array(8)),
      );
      while (!((await client.next(h2.PING)).flags & h2.ACK));
      await client.send(h2.frame(h2.DATA, h2.END_STREAM, 1, new TextEncoder().encode("forbidden")));
      await client.end();
    }],
    ["by HTTP/1.1", async (net) => {
      const client = await net.client();
      await client.send(
        `POST /a.B/C HTTP/1.1\r\nHost: api.example.com\r\n${types}Transfer-Encoding: chunked\r\n\r\n` +
          `5\r\n${EMPTY}\r\n`,
      );
      await client.send("9\r\nforbidden\r\n0\r\n\r\n");
      await client.answer("POST");
      client.close();
    }],
    ["of two types", async (net) => {
      using client = await RawHttp2.open(net);
      const fields = h2Fields({ ":method": "POST", ":path": "/a.B/C", "content-type": "application/grpc" });
      await client.send(
        h2Request(1, [...fields, ["content-type", "text/plain"]], h2.END_HEADERS),
        h2.frame(h2.DATA, 0, 1, new TextEncoder().encode(EMPTY)),
        h2.frame(h2.PING, 0, 0, new Uint8Array(8)),
      );
      while (!((await client.next(h2.PING)).flags & h2.ACK));
      await client.send(h2.frame(h2.DATA, h2.END_STREAM, 1, new TextEncoder().encode("forbidden")));
      await client.end();
    }],
  ];
  for (const [name, send] of cases) {
    await t.step(name, async () => {
      const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
      await using net = await TestNet.open({ target: () => upstream.target, rules: RULES });
      await send(net);
      await net.idle();
      assertEquals([net.gate.entries.at(-1)?.decision?.rule.id, upstream.requests], ["no-words", []]);
      upstream.close();
    });
  }
});

Deno.test("a compressed message, which no rule on bodies could read", async () => {
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({ target: () => upstream.target, rules: RULES });
  using client = await RawHttp2.open(net);
  const fields = { ":method": "POST", ":path": "/a.B/C", "content-type": "application/grpc" };
  const bytes = gzipSync("forbidden");
  await client.send(
    h2Request(1, h2Fields({ ...fields, "grpc-encoding": "gzip" }), h2.END_HEADERS),
    h2.frame(h2.DATA, h2.END_STREAM, 1, new Uint8Array([1, 0, 0, 0, bytes.length, ...bytes])),
  );
  assertEquals(statusOf(await client.end()), "7");
  assertEquals([net.gate.entries.at(-1)?.decision?.rule.id, upstream.requests], ["guard-body", []]);
  upstream.close();
});

Deno.test("a call is known by any of its content types: servers take the one that they know", async () => {
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({ target: () => upstream.target, rules: RULES });
  using client = await RawHttp2.open(net);
  const fields = h2Fields({ ":method": "POST", ":path": "/bank.Money/Send", "content-type": "text/plain" });
  await client.send(h2Request(1, [...fields, ["content-type", "application/grpc"]]));
  await client.end();
  assertEquals([net.gate.entries.at(-1)?.decision?.rule.id, upstream.requests], ["no-call", []]);
  upstream.close();
});

Deno.test(
  "a compressed file with a decoy that says it is a call",
  world([{ provider: "github", secret: KEY.github, decoy: true }], async ({ open }) => {
    const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    await using net = await TestNet.open({ target: () => upstream.target, broker: await open(ALL) });
    using client = await RawHttp2.open(net);
    const fields = { ":method": "POST", ":path": "/a.B/C", "content-type": "application/grpc" };
    await client.send(
      h2Request(1, h2Fields(fields), h2.END_HEADERS),
      h2.frame(h2.DATA, h2.END_STREAM, 1, gzipSync(`note ${KEY.github}`)),
    );
    assertEquals(statusOf(await client.end()), "7");
    assertEquals(upstream.requests, []);
    upstream.close();
  }),
);

Deno.test("a call of a model by gRPC, which no rule on models could read", async () => {
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    target: () => upstream.target,
    rules: MODEL_RULES,
    models: new ModelReader(),
  });
  using client = await RawHttp2.open(net);
  const service = "/google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent";
  for (const [at, path] of [service, `${service}?model=models/m`].entries()) {
    const fields = h2Fields({
      ":method": "POST",
      ":authority": GOOGLE,
      ":path": path,
      "content-type": "application/grpc",
    });
    await client.send(
      h2Request(2 * at + 1, fields, h2.END_HEADERS),
      h2.frame(h2.DATA, h2.END_STREAM, 2 * at + 1, new TextEncoder().encode("\0\0\0\0\x08models/m")),
    );
    assertEquals(statusOf(await client.end(2 * at + 1)), "7");
    const rules = net.gate.entries.map(({ decision }) => decision?.rule.id);
    assertEquals([rules.includes("guard-model"), upstream.requests], [true, []]);
  }
  upstream.close();
});
