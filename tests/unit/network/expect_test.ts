/** `Expect: 100-continue`: policy and the upstream are asked before the client sends its body. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as h2 from "../../../lib/network/http2/frame.ts";
import { encodeHeaders } from "../../../lib/network/http2/hpack.ts";
import { added, KEY, world } from "../../helper/credential.ts";
import { h2Data, h2Upstream } from "../../helper/http2_upstream.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream, type RawClient, rawUpstream } from "../../helper/net_client.ts";
import { httpResponse } from "../../helper/gate.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const DENIED = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 4\r\n\r\nwho?";
const SIZE = 20 * 1024 * 1024;

const announce = (method: string, length: number, more = "") =>
  `${method} /x HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\n${more}\r\n`;

/** Statuses of the responses on record, and texts of the bodies. */
const record = (net: TestNet) =>
  net.gate.entries.map((entry) => [
    entry.outcome?.response && httpResponse(entry).status,
    entry.event.http?.request.body.text,
  ]);

/** An upstream that asks for the body of each request. */
function askingUpstream(seen: string[] = []) {
  const upstream = rawUpstream(async (client: RawClient) => {
    while (true) {
      const head = await client.until("\r\n\r\n");
      if (/expect: 100-continue/.test(head)) await client.send("HTTP/1.1 100 Continue\r\n\r\n");
      seen.push(head + await client.take(Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0)));
      await client.send(OK);
    }
  });
  return { ...upstream, seen };
}

Deno.test("the upstream's refusal comes before the body is sent", async () => {
  const heads: string[] = [];
  const refusing = rawUpstream(async (client) => {
    heads.push(await client.until("\r\n\r\n"));
    await client.send(DENIED);
    assert(await client.closed());
  });
  await using net = await TestNet.open({ target: () => refusing.target });
  const client = await net.client();
  const answer = await client.ask(announce("PUT", SIZE));
  assertEquals([answer.status, answer.body, answer.headers.get("connection")], [401, "who?", "close"]);
  assert(await client.closed());
  client.close();
  await net.idle();
  assertStringIncludes(heads[0], `content-length: ${SIZE}\r\n`);
  assertStringIncludes(heads[0], "expect: 100-continue\r\n");
  assertEquals(record(net), [[401, undefined]]);
  assertEquals(net.gate.entries[0].event.common.labels.expect, "100-continue");
  refusing.close();
});

Deno.test("curl sends nothing of 20 MB when the answer is 401", async () => {
  const refusing = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    await client.send(DENIED);
    assert(await client.closed());
  });
  await using net = await TestNet.open({ target: () => refusing.target });
  const path = `${net.dir}/big`;
  await Deno.writeFile(path, new Uint8Array(SIZE));
  const args = ["-T", path, "-w", "uploaded %{size_upload}", "-H", "Expect: 100-continue"];
  const { code, stdout } = await net.curl(`http://${HOST}/x`, ...args, "--expect100-timeout", "15");
  assertEquals(code, 0);
  assertStringIncludes(stdout, "401 Unauthorized");
  assertStringIncludes(stdout, "uploaded 0");
  refusing.close();
});

Deno.test("policy refuses by the head, before the body is sent and before the upstream is asked", async (t) => {
  const rules = {
    "a path": 'http.request.path == "/x"',
    "the length that was announced": "http.request.bytes > 10000000",
  };
  for (const [name, match] of Object.entries(rules)) {
    await t.step(name, async () => {
      const upstream = askingUpstream();
      const rule = `[profiles.rules.no]\nname = "no"\naction = "block"\nmatch = '${match}'\n`;
      await using net = await TestNet.open({ target: () => upstream.target, rules: rule });
      const client = await net.client();
      const { status } = await client.ask(announce("PUT", SIZE));
      assertEquals([status, upstream.conns.length, record(net).length], [403, 0, 1]);
      assert(await client.closed());
      client.close();
      upstream.close();
    });
  }
});

Deno.test("a body that the upstream asks for is decided on and recorded before it goes out", async () => {
  const upstream = askingUpstream();
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  for (let at = 0; at < 2; at++) {
    assertEquals((await client.ask(announce("PUT", 5))).status, 100);
    assertEquals((await client.ask("hello")).body, "ok");
  }
  client.close();
  await net.idle();
  assertEquals(record(net), [[100, undefined], [200, "hello"], [100, undefined], [200, "hello"]]);
  const [first, second] = net.gate.entries;
  assertEquals(second.event.common.labels.event_id, first.event.common.event_id);
  assertEquals(upstream.conns.length, 1);
  assertStringIncludes(upstream.seen[0], "\r\n\r\nhello");
  upstream.close();
});

Deno.test("an upstream that says nothing of the announcement gets the body all the same", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target, timeouts: { proceed: 50 } });
  const client = await net.client();
  assertEquals((await client.ask(announce("POST", 5))).status, 100);
  assertEquals((await client.ask("hello")).body, "ok");
  assertStringIncludes(upstream.requests[0], "\r\n\r\nhello");
  client.close();
  upstream.close();
});

Deno.test("a client that sends its body with its head waits for nobody", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  assertEquals((await client.ask(announce("PUT", 5) + "hello")).status, 200);
  assertEquals(upstream.requests, [
    `PUT /x HTTP/1.1\r\nhost: ${HOST}\r\ncontent-length: 5\r\n\r\nhello`,
  ]);
  client.close();
  upstream.close();
});

Deno.test("requests that are decided on with their bodies are asked for them first", async (t) => {
  const reads =
    `[profiles.rules.no]\nname = "no"\naction = "block"\nmatch = 'http.request.body.text.contains("bad")'\n`;
  const rewrites = `[profiles.rules.mark]\nname = "mark"\naction = "rewrite"\n` +
    `match = 'http.request.path == "/x"'\nrewrite = [{ op = "set", path = "http.request.query", value = "a=1" }]\n`;
  const cases: [name: string, rules: string, more: string][] = [
    ["a rule reads bodies", reads, ""],
    ["a rule changes the request", rewrites, ""],
    ["an encoded body", "", "Content-Encoding: gzip\r\n"],
  ];
  for (const [name, rules, more] of cases) {
    await t.step(name, async () => {
      const upstream = fixedUpstream(OK);
      await using net = await TestNet.open({ target: () => upstream.target, rules });
      const client = await net.client();
      assertEquals((await client.ask(announce("PUT", 5, more))).status, 100);
      assertEquals([upstream.conns.length, net.gate.entries.length], [0, 0]);
      assertEquals((await client.ask("hello")).status, 200);
      assert(!upstream.requests[0].includes("expect"));
      client.close();
      await net.idle();
      assertEquals(net.gate.entries.length, 1);
      upstream.close();
    });
  }
});

Deno.test(
  "a body whose length the broker changes goes out as another request",
  world(added, async ({ open, refs }) => {
    const host = "console.anthropic.com";
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker: await open() });
    const seen: string[] = [];
    const upstream = rawUpstream(async (client) => {
      const head = await client.until("\r\n\r\n");
      if (/expect/.test(head)) await client.send("HTTP/1.1 100 Continue\r\n\r\n");
      seen.push(head + await client.take(Number(/content-length: (\d+)/.exec(head)![1])));
      await client.send(OK);
    }, await net.leaf(host));
    target = upstream.target;
    const body = `grant_type=refresh_token&key=${refs.anthropic}`;
    const client = await net.tls(host);
    const head = `POST /v1/oauth/token HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${body.length}\r\n` +
      "Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n";
    assertEquals((await client.ask(head)).status, 100);
    const { status } = await client.ask(body);
    client.close();
    await net.idle();
    assertEquals([status, seen.length], [200, 1]);
    assertStringIncludes(seen[0], KEY.anthropic);
    assert(!seen[0].includes("expect"));
    upstream.close();
  }),
);

Deno.test("a client that is gone while its upstream is asked ends the exchange", async () => {
  const gone = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    asked.resolve();
    if (await client.closed()) gone.resolve();
  });
  await using net = await TestNet.open({ target: () => upstream.target, timeouts: { proceed: 60_000 } });
  const client = await net.client();
  await client.send(announce("PUT", 5));
  await asked.promise;
  client.close();
  await gone.promise;
  await net.idle();
  assert(net.gate.entries[0].outcome!.error);
  upstream.close();
});

Deno.test("HTTP/2 upstreams are asked too", async (t) => {
  const head = (at: number, status: string, flags = 0) =>
    h2.frame(h2.HEADERS, h2.END_HEADERS | flags, at, encodeHeaders([[":status", status]]));
  for (const status of [100, 401]) {
    await t.step(`${status}`, async () => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ target: () => target, timeouts: { proceed: 60_000 } });
      const upstream = h2Upstream(
        await net.leaf(HOST),
        (at, send) =>
          status === 100
            ? send(head(at, "100"), head(at, "200"), h2Data(at, "fine"))
            : send(head(at, "401", h2.END_STREAM)),
      );
      target = upstream.target;
      const client = await net.tls(HOST);
      assertEquals((await client.ask(announce("PUT", 5))).status, status);
      if (status === 100) assertEquals((await client.ask("hello")).body, "fine");
      client.close();
      upstream.close();
    });
  }
});
