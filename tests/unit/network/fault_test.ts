/** Broken upstreams, and clients that disconnect: nothing hangs, nothing leaks. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import { closeQuietly } from "../../../lib/base/wire/mod.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";
import { httpResponse } from "../../helper/gate.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const H = `Host: ${HOST}\r\n`;

Deno.test("a failure of the upstream is reported to the client and recorded", async (t) => {
  const cases: [name: string, serve: (conn: Deno.Conn) => Promise<unknown>, status: number, text: string][] =
    [
      ["closes without a response", () => Promise.resolve(), 502, "closed the connection without a response"],
      ["is silent", () => new Promise(() => {}), 504, "was idle for too long"],
      [
        "closes within its head",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\nx-a"),
        502,
        "closed the connection within the response head",
      ],
      ["is no HTTP", (conn) => say(conn, "220 smtp ready\r\n\r\n"), 502, "invalid status line"],
      [
        "sends less than it declared",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"),
        502,
        "within a body",
      ],
      [
        "names two lengths",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        502,
        "conflicting content-length",
      ],
      [
        "has both framings",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"),
        502,
        "both",
      ],
      [
        "splits its response",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\nx: a\nset-cookie: b\r\n\r\n"),
        502,
        "bare LF",
      ],
      [
        "sends endless interim responses",
        (conn) => say(conn, "HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
        502,
        "too many interim responses",
      ],
      [
        "switches the protocol unasked",
        (conn) => say(conn, "HTTP/1.1 101 X\r\nupgrade: websocket\r\n\r\n"),
        502,
        "not requested",
      ],
      [
        "sends an endless head",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\n" + "x: y\r\n".repeat(20_000)),
        502,
        "too long",
      ],
    ];
  for (const [name, serve, status, text] of cases) {
    await t.step(name, async () => {
      const upstream = rawUpstream(async (client, conn) => {
        await client.until("\r\n\r\n");
        await serve(conn);
      });
      await using net = await TestNet.open({ target: () => upstream.target, timeouts: { response: 100 } });
      const client = await net.client();
      const answer = await client.ask(`POST / HTTP/1.1\r\n${H}Content-Length: 2\r\n\r\nhi`);
      assertEquals(answer.status, status, answer.body);
      assertStringIncludes(JSON.parse(answer.body).error, text);
      assertStringIncludes(net.gate.entries[0].outcome!.error!, text);
      client.close();
      upstream.close();
      await net.idle();
      await eventually("upstreams are closed", () => net.proxy.size.upstreams === 0);
    });
  }
});

Deno.test("a long response that the upstream breaks off is cut", async (t) => {
  const long = "x".repeat(100_000);
  const cases: [name: string, answer: string, text: string][] = [
    ["too short", `HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n${long}`, "within a body"],
    [
      "a bad chunk",
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n186a0\r\n${long}\r\nno\r\n`,
      "invalid chunk size",
    ],
    [
      "no last chunk",
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n186a0\r\n${long}\r\n`,
      "within a body",
    ],
  ];
  for (const [name, answer, text] of cases) {
    await t.step(name, async () => {
      const upstream = rawUpstream(async (client) => {
        await client.until("\r\n\r\n");
        await client.send(answer);
      });
      await using net = await TestNet.open({ target: () => upstream.target });
      const client = await net.client();
      await client.send(`GET / HTTP/1.1\r\n${H}\r\n`);
      const got = await client.rest();
      assert(got.includes("xxxx") && !got.endsWith("0\r\n\r\n"));
      client.close();
      await net.idle();
      const [entry] = net.gate.entries;
      assertStringIncludes(entry.outcome!.error!, text);
      const { bytes, body } = httpResponse(entry);
      assertEquals([bytes, body.truncated], [100_000, true]);
      upstream.close();
    });
  }
});

Deno.test("upstreams that cannot be reached or trusted", async (t) => {
  await using net = await TestNet.open({
    target: (host) => ({ hostname: "127.0.0.1", port: host === "closed.example.com" ? 1 : port }),
  });
  const upstream = fixedUpstream(OK, await net.leaf("other.example.com"));
  const { port } = upstream.target;
  const cases = [["closed.example.com", "refused the connection"], [
    HOST,
    "has a certificate for another name",
  ]];
  for (const [host, text] of cases) {
    await t.step(text, async () => {
      const client = await net.tls(host);
      const { status, body } = await client.ask(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      assertEquals([status, JSON.parse(body).code], [502, "upstream.failed"]);
      assertStringIncludes(JSON.parse(body).error, text);
      client.close();
    });
  }
  upstream.close();
});

Deno.test("a request on an idle connection that the upstream has closed is retried if it is idempotent", async () => {
  let count = 0;
  const upstream = rawUpstream(async (client) => {
    // Each connection answers once and ends at the next request.
    await client.until("\r\n\r\n");
    count++;
    await client.send(OK);
    await client.until("\r\n\r\n");
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  const request = `GET / HTTP/1.1\r\n${H}\r\n`;
  for (let at = 0; at < 3; at++) assertEquals((await client.ask(request)).status, 200);
  assertEquals(count, 3);
  const post = await client.ask(`POST / HTTP/1.1\r\n${H}Content-Length: 1\r\n\r\nx`);
  assertEquals(post.status, 502);
  client.close();
  upstream.close();
});

Deno.test("a compression bomb is recorded up to the limit, and relayed as it is", async () => {
  const bomb = gzipSync(new Uint8Array(64 * 1024 * 1024));
  const upstream = rawUpstream(async (client, conn) => {
    await client.until("\r\n\r\n");
    await client.send(
      `HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`,
    );
    await client.send(bomb);
    await conn.closeWrite();
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  const answer = await client.ask(`GET / HTTP/1.1\r\n${H}Accept-Encoding: gzip\r\n\r\n`).catch(() =>
    undefined
  );
  assertEquals(answer?.headers.get("content-encoding"), "gzip");
  client.close();
  await net.idle();
  const { body, bytes } = httpResponse(net.gate.entries[0]);
  assertEquals([bytes, body.state, body.text?.length, body.truncated], [bomb.length, "text", 65536, true]);
  upstream.close();
});

Deno.test("a client that disconnects ends its upstream connection", async () => {
  const received = Promise.withResolvers<void>();
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    received.resolve();
    await client.rest();
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  await client.send(`GET / HTTP/1.1\r\n${H}\r\n`);
  await received.promise;
  client.close();
  await net.idle();
  await eventually("the upstream connection is closed", () => net.proxy.size.upstreams === 0);
  assert(net.gate.entries[0].outcome!.error);
  upstream.close();
});

async function say(conn: Deno.Conn, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
  closeQuietly(conn);
}
