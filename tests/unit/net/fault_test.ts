/** Broken upstreams, and clients that go away: nothing hangs, nothing leaks (issue 5). */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import { eventually } from "../../helper/sbx.ts";
import { TestNet } from "../../helper/net.ts";
import { closeQuietly, fixedUpstream, rawUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const H = `Host: ${HOST}\r\n`;

Deno.test("an upstream that fails is answered with what happened, and recorded", async (t) => {
  const cases: [name: string, serve: (conn: Deno.Conn) => Promise<unknown>, status: number, text: string][] =
    [
      ["says nothing and closes", () => Promise.resolve(), 502, "closed the connection without an answer"],
      ["says nothing", () => new Promise(() => {}), 504, "did nothing for too long"],
      [
        "closes within its head",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\nx-a"),
        502,
        "closed the connection within its head",
      ],
      ["is no HTTP", (conn) => say(conn, "220 smtp ready\r\n\r\n"), 502, "no status line"],
      [
        "sends less than it said",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"),
        502,
        "within a body",
      ],
      [
        "names two lengths",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        502,
        "two lengths",
      ],
      [
        "has both framings",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"),
        502,
        "both",
      ],
      [
        "splits its answer",
        (conn) => say(conn, "HTTP/1.1 200 OK\r\nx: a\nset-cookie: b\r\n\r\n"),
        502,
        "carriage return",
      ],
      [
        "sends interim answers without end",
        (conn) => say(conn, "HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
        502,
        "without end",
      ],
      [
        "changes the protocol unasked",
        (conn) => say(conn, "HTTP/1.1 101 X\r\nupgrade: websocket\r\n\r\n"),
        502,
        "nobody asked for",
      ],
      [
        "sends a head without end",
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
      await using net = await TestNet.open({ target: () => upstream.target, timeouts: { answer: 100 } });
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

Deno.test("an upstream that breaks off a long answer cuts the client's", async (t) => {
  const long = "x".repeat(100_000);
  const cases: [name: string, answer: string, text: string][] = [
    ["too short", `HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n${long}`, "within a body"],
    [
      "a bad chunk",
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n186a0\r\n${long}\r\nno\r\n`,
      "says no length",
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
      const { error, response } = net.gate.entries[0].outcome!;
      assertStringIncludes(error!, text);
      assertEquals([(response as any).bytes, (response as any).body.truncated], [100_000, true]);
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

Deno.test("a kept connection that the upstream has closed is tried anew, where that does no harm", async () => {
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

Deno.test("a bomb is kept to the limit, and passed on as it is", async () => {
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
  const { body, bytes } = net.gate.entries[0].outcome!.response as any;
  assertEquals([bytes, body.state, body.text.length, body.truncated], [bomb.length, "text", 65536, true]);
  upstream.close();
});

Deno.test("a client that goes away takes its upstream connection with it", async () => {
  const asked = Promise.withResolvers<void>();
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    asked.resolve();
    await client.rest();
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  await client.send(`GET / HTTP/1.1\r\n${H}\r\n`);
  await asked.promise;
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
