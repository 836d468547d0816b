/**
 * HTTP/2 of guests: each stream is a request of its own, decided on, recorded and relayed as over HTTP/1.1.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { GUEST_CONNECTION_WINDOW, HTTP2_IDLE_FRAMES, STREAMS_MAX } from "../../../lib/network/limit.ts";
import { h2Fields, h2Post, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { h2Data, h2Ok, h2Upstream } from "../../helper/http2_upstream.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const text = (value: string) => new TextEncoder().encode(value);

/** A guest, and an upstream without TLS. */
async function withUpstream(
  handler: Deno.ServeHandler<Deno.NetAddr>,
  run: (net: TestNet) => Promise<void>,
  options: TestNetOptions = {},
): Promise<void> {
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
  const target = { hostname: "127.0.0.1", port: upstream.addr.port };
  await using net = await TestNet.open({ target: () => target, ...options });
  await run(net);
}

Deno.test("curl speaks HTTP/2 by TLS, and by prior knowledge without it", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const echo = async (request: Request) =>
    Response.json([request.method, (await request.arrayBuffer()).byteLength]);
  const onListen = () => {};
  await using secure = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen, ...await net.leaf(HOST) },
    echo,
  );
  target = { hostname: "127.0.0.1", port: secure.addr.port };
  const path = `${net.dir}/body`;
  await Deno.writeFile(path, new Uint8Array(3_000_000));
  for (
    const [args, answer] of [
      [[], '["GET",0]'],
      [["-d", "abc"], '["POST",3]'],
      [["--data-binary", `@${path}`], '["POST",3000000]'],
      [["-H", "expect: 100-continue", "-d", "abcd"], '["POST",4]'],
      [["-I"], "content-length"],
    ] as const
  ) {
    const { code, stdout, stderr } = await net.curl(`https://${HOST}/x`, "--http2", ...args);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, "HTTP/2 200");
    assertStringIncludes(stdout, answer);
  }
  await using plain = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, echo);
  target = { hostname: "127.0.0.1", port: plain.addr.port };
  const known = await net.curl(`http://${HOST}/x`, "--http2-prior-knowledge");
  assertStringIncludes(known.stdout, "HTTP/2 200");
  // An upgrade is not taken: the client stays with HTTP/1.1.
  assertStringIncludes((await net.curl(`http://${HOST}/x`, "--http2")).stdout, "HTTP/1.1 200");
  const urls = new Set(net.gate.entries.map(({ event }) => event.http?.request.url));
  assertEquals([...urls], [`https://${HOST}/x`, `http://${HOST}/x`]);
});

Deno.test("nghttp2's clients: many streams at once, none refused, and bodies both ways", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const onListen = () => {};
  await using upstream = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen, ...await net.leaf(HOST) },
    async (request) => new Response(`${(await request.arrayBuffer()).byteLength}`),
  );
  target = { hostname: "127.0.0.1", port: upstream.addr.port };
  const forward = net.forward(443);
  const path = `${net.dir}/body`;
  await Deno.writeFile(path, new Uint8Array(200_000));
  const to = `--connect-to=127.0.0.1:${forward.port}`;
  for (
    const [args, count] of [
      [["-n", "400", "-c", "1", "-m", "100"], 400],
      [["-n", "40", "-c", "4", "-m", "10", "-d", path, "-w", "16"], 40],
    ] as const
  ) {
    const { stdout } = await new Deno.Command("h2load", { args: [...args, to, `https://${HOST}/`] }).output();
    assertStringIncludes(new TextDecoder().decode(stdout), `${count} succeeded, 0 failed, 0 errored`);
  }
  const sent = net.gate.entries.filter(({ outcome }) => outcome?.error === undefined);
  assertEquals(sent.length, 440);
  forward.close();
});

Deno.test("without the setting, guests get HTTP/1.1", async () => {
  await withUpstream(() => new Response("ok"), async (net) => {
    const { code } = await net.curl(`http://${HOST}/`, "--http2-prior-knowledge");
    assert(code !== 0);
    assertStringIncludes((await net.curl(`http://${HOST}/`, "--http2")).stdout, "HTTP/1.1 200");
  }, { http2: false });
});

Deno.test("a refusal is the same as over HTTP/1.1, for its stream alone", async () => {
  const rules = `[profiles.rules.no-admin]
name = "no admin"
action = "block"
match = 'http.request.path.startsWith("/admin")'
`;
  await withUpstream(() => new Response("ok"), async (net) => {
    using client = await RawHttp2.open(net);
    await client.send(h2Request(1, h2Fields({ ":path": "/admin" })), h2Request(3));
    const [blocked, served] = [await client.end(1), await client.end(3)];
    assertEquals([blocked.status, JSON.parse(blocked.body).rule.id], [403, "no-admin"]);
    assertEquals([served.status, served.body], [200, "ok"]);
    await client.send(h2Request(5, h2Fields({ ":authority": "other.example.com:81" })));
    const fronted = await client.end(5);
    assertEquals([fronted.status, JSON.parse(fronted.body).rule.id], [403, "guard-domain-fronting"]);
  }, { rules });
});

Deno.test("a request goes to an upstream of HTTP/1.1 as one request, whatever its fields are", async () => {
  let seen = "";
  const upstream = rawUpstream(async (_, conn) => {
    const buffer = new Uint8Array(4096);
    let count = 0;
    while (!seen.endsWith("body")) {
      count += (await conn.read(buffer.subarray(count)))!;
      seen = new TextDecoder().decode(buffer.subarray(0, count));
    }
    await conn.write(text("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  using client = await RawHttp2.open(net);
  const fields = [
    ...h2Fields({ ":method": "POST", "content-length": "4", te: "trailers", "x-a": "b" }),
    ["cookie", "a=1"],
    ["cookie", "b=2"],
    ["content_length", "9"],
  ] as [string, string][];
  await client.send(
    h2Request(1, fields, h2.END_HEADERS),
    h2.frame(h2.DATA, h2.END_STREAM, 1, text("body")),
  );
  assertEquals((await client.end()).status, 200);
  const lines = [
    "x-a: b",
    "cookie: a=1; b=2",
    "content-length: 4",
    "connection: te",
    "te: trailers",
    "",
    "body",
  ];
  assertEquals(seen.split("\r\n"), ["POST / HTTP/1.1", `host: ${HOST}`, ...lines]);
  upstream.close();
});

Deno.test("trailers go both ways, and a body of a HEAD is dropped", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = h2Upstream(await net.leaf(HOST), (at, send, count) =>
    count === 1
      ? send(
        h2Ok(at, ["x-first", "1"]),
        h2Data(at, "fine", 0),
        h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, at, h2.encodeHeaders([["x-sum", "7"]])),
      )
      : send(h2Ok(at), h2Data(at, "not for a HEAD")));
  target = upstream.target;
  const { stdout } = await net.curl(`https://${HOST}/`, "--http2");
  assertStringIncludes(stdout, "x-first: 1");
  assertStringIncludes(stdout, "fine");
  assertStringIncludes(stdout, "x-sum: 7");
  for (const version of ["--http2", "--http1.1"]) {
    const head = await net.curl(`https://${HOST}/`, version, "-I");
    assertEquals([head.code, head.stdout.includes("not for")], [0, false], head.stderr);
  }
  upstream.close();
});

Deno.test("a slow reader stops its upstream, and the connection's other streams go on", async () => {
  let sent = 0;
  const piece = new Uint8Array(64 * 1024);
  const body = () =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += piece.length;
        controller.enqueue(piece);
      },
    }, { highWaterMark: 0 });
  await withUpstream(
    (request) => new Response(request.url.endsWith("/endless") ? body() : "ok"),
    async (net) => {
      using client = await RawHttp2.open(net);
      await client.send(h2Request(1, h2Fields({ ":path": "/endless" })));
      // The whole of its window, and no more.
      let received = 0;
      while (received < h2.WINDOW) {
        const { stream, payload } = await client.next(h2.DATA);
        assertEquals(stream, 1);
        received += payload.length;
      }
      assertEquals(received, h2.WINDOW);
      let before = -1;
      while (before !== sent) {
        before = sent;
        // The connection's window is used up too.
        await client.send(h2.numberFrame(h2.WINDOW_UPDATE, 0, 1000), h2Request(nextId()));
        assertEquals((await client.end(id)).body, "ok");
      }
      // What sockets and windows between here and there hold.
      assert(sent < 32 * 1024 * 1024, `${sent}`);
      await client.send(h2.numberFrame(h2.RST_STREAM, 1, h2.CANCEL));
      await client.send(h2Request(nextId()));
      assertEquals((await client.end(id)).body, "ok");
    },
  );
  assertEquals(id > 1, true);
});

let id = 1;
const nextId = () => id += 2;

Deno.test("an upload is read at the pace of its upstream, and windows open as it is read", async () => {
  const size = 3 * GUEST_CONNECTION_WINDOW;
  await withUpstream(async (request) => {
    let count = 0;
    for await (const piece of request.body!) count += piece.length;
    return new Response(`${count}`);
  }, async (net) => {
    using client = await RawHttp2.open(net);
    await client.send(h2Post());
    let [stream, connection] = [0, h2.WINDOW];
    for (
      let frame = await client.frame();
      connection < GUEST_CONNECTION_WINDOW;
      frame = await client.frame()
    ) {
      const view = new DataView(frame!.payload.buffer, frame!.payload.byteOffset);
      if (frame!.type === h2.SETTINGS && !(frame!.flags & h2.ACK)) stream = view.getUint32(8);
      if (frame!.type === h2.WINDOW_UPDATE) connection += view.getUint32(0);
    }
    for (let left = size; left > 0;) {
      while (stream <= 0 || connection <= 0) {
        const { stream: of, payload } = await client.next(h2.WINDOW_UPDATE);
        const count = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
        if (of === 0) connection += count;
        else stream += count;
      }
      const count = Math.min(left, stream, connection, h2.FRAME_MAX);
      left -= count;
      stream -= count;
      connection -= count;
      await client.send(h2.frame(h2.DATA, left === 0 ? h2.END_STREAM : 0, 1, new Uint8Array(count)));
    }
    assertEquals((await client.end()).body, `${size}`);
  });
});

Deno.test("a client that resets its stream ends the request at its upstream", async () => {
  const aborted = Promise.withResolvers<void>();
  await withUpstream((request) => {
    request.signal.addEventListener("abort", () => aborted.resolve());
    return new Response(new ReadableStream({ start: (controller) => controller.enqueue(text("first")) }));
  }, async (net) => {
    using client = await RawHttp2.open(net);
    await client.send(h2Request());
    await client.next(h2.DATA);
    await client.send(h2.numberFrame(h2.RST_STREAM, 1, h2.CANCEL));
    await aborted.promise;
    client.conn.close();
    await net.idle();
    // As for a client of HTTP/1.1 that closes its connection.
    assertEquals(net.gate.entries[0].outcome?.error, "the upstream was closed");
  });
});

Deno.test("more streams than were offered are refused, and may be repeated", async () => {
  const waiting: (() => void)[] = [];
  const answer = () => new Promise<Response>((resolve) => waiting.push(() => resolve(new Response("ok"))));
  await withUpstream(answer, async (net) => {
    using client = await RawHttp2.open(net);
    const ids = Array.from({ length: STREAMS_MAX + 1 }, (_, at) => at * 2 + 1);
    await client.send(...ids.map((at) => h2Request(at)));
    const refused = await client.end(ids.at(-1));
    assertEquals(refused.reset, h2.REFUSED_STREAM);
    while (waiting.length < STREAMS_MAX) await new Promise((resolve) => setTimeout(resolve, 1));
    for (const resolve of waiting.splice(0)) resolve();
    let ends = 0;
    while (ends < STREAMS_MAX) ends += (await client.frame())!.flags & h2.END_STREAM ? 1 : 0;
    await client.send(h2Request(ids.at(-1)! + 2));
    while (waiting.length < 1) await new Promise((resolve) => setTimeout(resolve, 1));
    waiting[0]();
    assertEquals((await client.end(ids.at(-1)! + 2)).status, 200);
  });
});

Deno.test("a stream whose body stops is reset, and what follows late ends no other stream", async () => {
  await withUpstream(() => new Response("ok"), async (net) => {
    using client = await RawHttp2.open(net);
    await client.send(h2Post(1, { "content-length": "10" }), h2.frame(h2.DATA, 0, 1, text("x")));
    assertEquals((await client.end()).reset, h2.CANCEL);
    await client.send(h2.frame(h2.DATA, h2.END_STREAM, 1, text("x")), h2Request(3));
    assertEquals((await client.end(3)).status, 200);
  }, { timeouts: { body: 300, keepAlive: 5_000 } });
});

Deno.test("pings in step with answers, by which clients measure their windows, are no flood", async () => {
  await withUpstream(() => new Response("ok"), async (net) => {
    using client = await RawHttp2.open(net);
    const ping = h2.frame(h2.PING, 0, 0, new Uint8Array(8));
    for (let at = 0; at < 2 * HTTP2_IDLE_FRAMES; at += 50) {
      const ids = Array.from({ length: 50 }, (_, more) => 2 * (at + more) + 1);
      await client.send(...ids.map((id) => h2Request(id)));
      for (let ends = 0; ends < ids.length;) {
        const frame = await client.frame();
        if (!frame || frame.type === h2.GOAWAY) throw new Error("the connection was ended");
        if (frame.stream === 0 || !(frame.flags & h2.END_STREAM)) continue;
        ends++;
        await client.send(ping);
      }
    }
  });
});

Deno.test("GOAWAY of a client lets its last streams end; an idle connection gets one", async () => {
  await withUpstream(() => new Response("ok"), async (net) => {
    using leaving = await RawHttp2.open(net);
    await leaving.send(h2Request(), h2.goAwayFrame(h2.NO_ERROR));
    assertEquals((await leaving.end()).status, 200);
    assertEquals([(await leaving.end(3)).goAway, (await leaving.end(3)).closed], [h2.NO_ERROR, true]);
    using idle = await RawHttp2.open(net);
    assertEquals((await idle.end()).goAway, h2.NO_ERROR);
    await net.idle();
  }, { timeouts: { keepAlive: 100 } });
});
