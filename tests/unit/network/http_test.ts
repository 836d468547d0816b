/** HTTP through the proxy: requests sent, responses returned, and their events. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { httpRequest } from "../../helper/event.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream, type RawResponse, rawUpstream } from "../../helper/net_client.ts";
import { upgradeHead } from "../../helper/websocket.ts";
import { httpResponse } from "../../helper/gate.ts";

const HOST = "api.example.com";

/** An upstream served by Deno: HTTP/1.1 and HTTP/2. */
function serve(handler: Deno.ServeHandler, tls?: { cert: string; key: string }) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, ...tls, onListen() {} } as never, handler);
  const { port } = server.addr as unknown as Deno.NetAddr;
  return { target: { hostname: "127.0.0.1", port }, close: () => server.shutdown() };
}

Deno.test("curl over TLS: the request is an event with its response, over HTTP/2 where the upstream has it", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = serve(async (request) => {
    const body = `${request.method} ${request.url} ${await request.text()}`;
    return Response.json({ body, up: request.headers.get("x-up") });
  }, await net.leaf(HOST));
  target = upstream.target;
  const { stdout, stderr } = await net.curl(
    `https://${HOST}/v1/things?a=b`,
    "-d",
    "hello",
    "-H",
    "X-Up: yes",
  );
  assertStringIncludes(stdout, `{"body":"POST https://${HOST}/v1/things?a=b hello","up":"yes"}`, stderr);
  const [{ event, outcome }] = net.gate.entries;
  const { request } = event.http!;
  const { headers, bytes: requestBytes } = request;
  assertEquals(
    request,
    httpRequest({
      method: "POST",
      host: HOST,
      path: "/v1/things",
      query: "a=b",
      url: `https://${HOST}/v1/things?a=b`,
      path_class: "api",
      bytes: requestBytes,
      headers,
      body: {
        state: "text",
        text: "hello",
        content_type: "application/x-www-form-urlencoded",
        size: 5,
        truncated: false,
      },
    }),
  );
  assertEquals([headers["host"], headers["x-up"]], [[HOST], ["yes"]]);
  assertEquals(event.common.process?.executable, "curl");
  const { status, address, bytes, body } = httpResponse(net.gate.entries[0]);
  assertEquals([status, address, bytes, body.state], [200, "127.0.0.1", body.size, "text"]);
  assertStringIncludes(body.text!, "POST https://");
  assert(outcome!.duration_ms! >= outcome!.first_byte_ms!);
  await net.idle();
  await upstream.close();
});

Deno.test("a keep-alive connection serves many requests, pipelined ones too, on one upstream connection", async () => {
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Kept: a\r\nx-kept: b\r\n\r\nok");
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  for (let at = 0; at < 20; at++) {
    const { status, body } = await client.ask(`GET /${at} HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
    assertEquals([status, body], [200, "ok"]);
  }
  await client.send(
    `GET /a HTTP/1.1\r\nHost: ${HOST}\r\n\r\nGET /b HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`,
  );
  assertEquals((await client.answer()).body, "ok");
  const last = await client.answer();
  assertEquals([last.body, last.headers.get("connection"), last.headers.get("x-kept")], [
    "ok",
    "close",
    "a, b",
  ]);
  assert(await client.closed());
  client.close();
  await net.idle();
  assertEquals([upstream.conns.length, upstream.requests.length, net.gate.entries.length], [1, 22, 22]);
  assertStringIncludes(upstream.requests[20], "GET /a HTTP/1.1\r\nhost: api.example.com\r\n");
  upstream.close();
});

Deno.test("bodies stream both ways, chunked or not, with trailers and with back-pressure", async () => {
  const size = 20 * 1024 * 1024;
  let received = 0;
  let trailers = "";
  const upstream = rawUpstream(async (client) => {
    const head = await client.until("\r\n\r\n");
    assertStringIncludes(head, "transfer-encoding: chunked");
    while (true) {
      const count = parseInt(await client.until("\r\n"), 16);
      if (count === 0) break;
      received += (await client.take(count)).length;
      await client.take(2);
    }
    trailers = await client.until("\r\n\r\n");
    await client.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    const piece = "y".repeat(65536);
    for (let left = size; left > 0; left -= piece.length) await client.send(`10000\r\n${piece}\r\n`);
    await client.send("0\r\nx-sum: 7\r\ncontent-length: 3\r\n\r\n");
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  await client.send(`POST /up HTTP/1.1\r\nHost: ${HOST}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  const piece = "x".repeat(65536);
  for (let left = size; left > 0; left -= piece.length) await client.send(`10000;ext=1\r\n${piece}\r\n`);
  await client.send("0\r\nx-check: 9\r\n\r\n");
  const answer = await client.answer();
  assertEquals([answer.body.length, answer.trailers, received], [size, "x-sum: 7\r\n", size]);
  assertStringIncludes(trailers, "x-check: 9");
  client.close();
  await net.idle();
  const [{ event }] = net.gate.entries;
  assertEquals([event.http!.request.body.text?.length, event.http!.request.body.truncated], [65536, true]);
  const { body, bytes } = httpResponse(net.gate.entries[0]);
  assertEquals([bytes, body.text?.length, body.truncated], [size, 65536, true]);
  upstream.close();
});

Deno.test("a slow response is relayed as it comes, its head first", async () => {
  const seen = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    await client.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
    for (let at = 0; at < 3; at++) {
      await seen[at].promise;
      await client.send(`data: ${at}\n\n`);
    }
    await seen[3].promise;
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  await client.send(`GET /events HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  assertStringIncludes(await client.until("\r\n\r\n"), "transfer-encoding: chunked");
  for (let at = 0; at < 3; at++) {
    seen[at].resolve();
    assertStringIncludes(await client.until("\n\n\r\n"), `data: ${at}\n\n`);
  }
  seen[3].resolve();
  assertEquals(await client.until("\r\n\r\n"), "0\r\n\r\n");
  client.close();
  await net.idle();
  assertEquals(httpResponse(net.gate.entries[0]).body.text, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  upstream.close();
});

Deno.test("responses without a body, interim responses, and HTTP/1.0", async (t) => {
  const cases: [
    name: string,
    request: string,
    answer: string,
    method: string,
    check: (answer: RawResponse) => unknown,
    want: unknown,
  ][] = [
    [
      "HEAD keeps the length of the missing body",
      "HEAD / HTTP/1.1",
      "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n",
      "HEAD",
      (answer) => [answer.status, answer.headers.get("content-length")],
      [200, "5000"],
    ],
    ["204", "GET / HTTP/1.1", "HTTP/1.1 204 No Content\r\n\r\n", "GET", (answer) => answer.status, 204],
    [
      "304 with a length",
      "GET / HTTP/1.1",
      'HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\netag: "a"\r\n\r\n',
      "GET",
      (answer) => [answer.status, answer.headers.get("etag"), answer.headers.get("content-length")],
      [304, '"a"', "9"],
    ],
    [
      "interim responses are skipped",
      "GET / HTTP/1.1",
      "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nz",
      "GET",
      (answer) => [answer.status, answer.body],
      [200, "z"],
    ],
    [
      "HTTP/1.0 gets no chunks",
      "GET / HTTP/1.0",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "GET",
      (answer) => [answer.headers.get("transfer-encoding"), answer.headers.get("connection"), answer.body],
      [null, "close", "abc"],
    ],
    [
      "a folded header of an upstream is one line",
      "GET / HTTP/1.1",
      "HTTP/1.1 200 OK\r\nx-long: a\r\n  b\r\ncontent-length: 0\r\n\r\n",
      "GET",
      (answer) => answer.headers.get("x-long"),
      "a b",
    ],
    [
      "headers of one connection stay on it",
      "GET / HTTP/1.1\r\nConnection: x-mine\r\nX-Mine: 1",
      "HTTP/1.1 200 OK\r\nconnection: x-theirs, keep-alive\r\nx-theirs: 1\r\nkeep-alive: timeout=5\r\ncontent-length: 0\r\n\r\n",
      "GET",
      (answer) => [answer.headers.get("x-theirs"), answer.headers.get("keep-alive")],
      [null, null],
    ],
    [
      "non-ASCII bytes of a target are percent-encoded",
      "GET /\u00fc HTTP/1.1",
      "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
      "GET",
      (answer) => answer.status,
      200,
    ],
  ];
  for (const [name, request, answer, method, check, want] of cases) {
    await t.step(name, async () => {
      const upstream = fixedUpstream(answer);
      await using net = await TestNet.open({ target: () => upstream.target });
      const client = await net.client();
      assertEquals(check(await client.ask(`${request}\r\nHost: ${HOST}\r\n\r\n`, method)), want);
      assertEquals(upstream.requests[0].includes("x-mine"), false);
      client.close();
      await net.idle();
      assertEquals(net.gate.entries.filter(({ outcome }) => outcome && !outcome.error).length, 1);
      upstream.close();
    });
  }
});

Deno.test("a rule that strips the upgrade sends the request without it", async () => {
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  const rule =
    `[profiles.rules.plain]\nname = "no sockets"\naction = "rewrite"\nmatch = 'http.request.headers["upgrade"][0] == "websocket"'\n` +
    `rewrite = [{ op = "strip_header", path = "upgrade" }]\n`;
  await using net = await TestNet.open({ target: () => upstream.target, rules: rule });
  const client = await net.client();
  assertEquals((await client.ask(upgradeHead(HOST, "/chat"))).status, 200);
  assert(!/upgrade/i.test(upstream.requests[0]), upstream.requests[0]);
  assertEquals((await client.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)).status, 200);
  client.close();
  upstream.close();
});

Deno.test("a WebSocket is an event, and is then relayed", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = serve((request) => {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onmessage = ({ data }) => socket.send(`you said ${data}`);
    return response;
  });
  target = upstream.target;
  const forward = net.forward(80);
  const client = await net.client();
  const key = "dGhlIHNhbXBsZSBub25jZQ==";
  const head = `GET /chat HTTP/1.1\r\nHost: ${HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`;
  const answer = await client.ask(head);
  assertEquals([answer.status, answer.headers.get("sec-websocket-accept")], [
    101,
    "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
  ]);
  // A masked text frame "hi" (RFC 6455 §5.7), and the server's frame back.
  await client.send(new Uint8Array([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
  assertEquals((await client.take(13)).slice(2), "you said hi");
  client.close();
  forward.close();
  await net.idle();
  const [{ event }] = net.gate.entries;
  assertEquals([event.http!.request.path, httpResponse(net.gate.entries[0]).status], ["/chat", 101]);
  assertEquals(httpResponse(net.gate.entries[0]).bytes, 13);
  await upstream.close();
});
