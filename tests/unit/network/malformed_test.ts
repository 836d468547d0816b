/** Requests that cannot be read safely: status 400, an event, and nothing is sent. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const H = `Host: ${HOST}\r\n`;

Deno.test("ambiguous requests are refused with 400 and an event", async (t) => {
  const cases: [name: string, request: string, reason: string][] = [
    [
      "both framings",
      `POST / HTTP/1.1\r\n${H}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      "both",
    ],
    [
      "two lengths",
      `POST / HTTP/1.1\r\n${H}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
      "conflicting content-length",
    ],
    [
      "the same length twice",
      `POST / HTTP/1.1\r\n${H}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello`,
      "more than one content-length",
    ],
    ["a list of lengths", `POST / HTTP/1.1\r\n${H}Content-Length: 5, 5\r\n\r\nhello`, "not a number"],
    ["a signed length", `POST / HTTP/1.1\r\n${H}Content-Length: +5\r\n\r\nhello`, "not a number"],
    ["a length in hex", `POST / HTTP/1.1\r\n${H}Content-Length: 0x5\r\n\r\nhello`, "not a number"],
    [
      "another coding",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: gzip, chunked\r\n\r\n`,
      "other than chunked",
    ],
    [
      "chunked twice",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`,
      "other",
    ],
    [
      "a coding that looks like chunked",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: \x0bchunked\r\n\r\n`,
      "control",
    ],
    ["chunks in HTTP/1.0", `POST / HTTP/1.0\r\n${H}Transfer-Encoding: chunked\r\n\r\n`, "HTTP/1.0"],
    ["a folded line", `GET / HTTP/1.1\r\n${H}X-A: 1\r\n 2\r\n\r\n`, "folded"],
    [
      "a space before the colon",
      `GET / HTTP/1.1\r\n${H}Content-Length : 5\r\n\r\n`,
      "white space before the colon",
    ],
    ["a bare CR", `GET / HTTP/1.1\r\n${H}X-A: 1\rX-B: 2\r\n\r\n`, "control characters"],
    ["a bare LF", `GET / HTTP/1.1\r\n${H}X-A: 1\nX-B: 2\r\n\r\n`, "bare LF"],
    ["NUL in a value", `GET / HTTP/1.1\r\n${H}X-A: 1\x002\r\n\r\n`, "control characters"],
    ["NUL in the target", `GET /\x00 HTTP/1.1\r\n${H}\r\n`, "control characters"],
    ["no host", `GET / HTTP/1.1\r\nX-A: 1\r\n\r\n`, "missing Host header"],
    ["two hosts", `GET / HTTP/1.1\r\n${H}${H}\r\n`, "more than one Host header"],
    ["an invalid host", `GET / HTTP/1.1\r\nHost: a b\r\n\r\n`, "invalid Host header"],
    ["user and password as host", `GET / HTTP/1.1\r\nHost: a@b\r\n\r\n`, "invalid Host header"],
    ["another host in the target", `GET http://other.example.com/ HTTP/1.1\r\n${H}\r\n`, "another host"],
    ["another scheme in the target", `GET https://${HOST}/ HTTP/1.1\r\n${H}\r\n`, "another scheme"],
    ["a tunnel", `CONNECT ${HOST}:443 HTTP/1.1\r\n${H}\r\n`, "a CONNECT request"],
    ["a fragment", `GET /#a HTTP/1.1\r\n${H}\r\n`, "fragment"],
    ["HTTP/2 without its handshake", `PRI * HTTP/2.0\r\n${H}\r\n`, "version"],
    ["four parts", `GET / a HTTP/1.1\r\n${H}\r\n`, "three parts"],
    ["too many fields", `GET / HTTP/1.1\r\n${H}${"X: 1\r\n".repeat(300)}\r\n`, "200 header fields"],
    ["too long", `GET / HTTP/1.1\r\n${H}X: ${"a".repeat(70_000)}\r\n\r\n`, "longer than 65536"],
    [
      "a chunk without a length",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
      "invalid chunk size",
    ],
    [
      "a negative chunk",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n-1\r\n`,
      "invalid chunk size",
    ],
    [
      "a chunk longer than its size",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n`,
      "longer",
    ],
    [
      "a chunk line with LF alone",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n1\na\r\n`,
      "bare LF",
    ],
    [
      "a chunk line without end",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n1;${"e".repeat(2000)}`,
      "too long",
    ],
    [
      "bad trailers",
      `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n0\r\na b: c\r\n\r\n`,
      "invalid header field name",
    ],
  ];
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  for (const [name, request, reason] of cases) {
    await t.step(name, async () => {
      const client = await net.client();
      const { status, headers, body } = await client.ask(request);
      assertEquals([status, headers.get("connection")], [400, "close"]);
      assertStringIncludes(JSON.parse(body).rule.reason, reason);
      assert(await client.closed());
      client.close();
      await net.idle();
      const { event, decision } = net.gate.entries.at(-1)!;
      assertEquals([event.common.event_type, decision!.rule.id], ["http.request", "guard-malformed-http"]);
    });
  }
  assertEquals(upstream.requests, []);
  upstream.close();
});

Deno.test("a slow head is refused, with an event", async () => {
  await using net = await TestNet.open({ timeouts: { head: 300 } });
  const client = await net.client();
  const head = `GET / HTTP/1.1\r\n${H}X-A: ${"a".repeat(10_000)}\r\n\r\n`;
  const drip = (async () => {
    for (const char of head) {
      await client.send(char);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })().catch(() => {});
  const { status, body } = await client.answer();
  assertEquals([status, JSON.parse(body).rule.id], [408, "guard-malformed-http"]);
  client.close();
  await drip;
  await net.idle();
  assertEquals(net.gate.entries.length, 1);
});

Deno.test("idle and slow clients are disconnected", async (t) => {
  const cases: [name: string, first: string][] = [
    ["an incomplete ClientHello", "\x16\x03\x01\x02\x00\x01"],
    ["an incomplete body", `POST / HTTP/1.1\r\n${H}Content-Length: 10\r\n\r\nhel`],
    ["an idle connection", ""],
  ];
  for (const [name, first] of cases) {
    await t.step(name, async () => {
      await using net = await TestNet.open({ timeouts: { head: 200, body: 200, keepAlive: 200 } });
      const client = await net.client();
      await client.send(first);
      await client.rest();
      client.close();
      await net.idle();
    });
  }
});
