/**
 * HTTP/2 of a hostile guest: floods that cost the host more than the guest, and requests
 * that two sides read differently.
 */
import { assert, assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import {
  GUEST_CONNECTION_WINDOW,
  HEAD_MAX,
  HTTP2_CONNECTIONS_MAX,
  STREAMS_MAX,
} from "../../../lib/network/limit.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { h2Fields, h2Post, h2Request, RawHttp2, type StreamEnd } from "../../helper/http2_client.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const bytes = (length: number) => new Uint8Array(length);
const reset = (stream: number) => h2.numberFrame(h2.RST_STREAM, stream, h2.CANCEL);

async function attacked(
  attack: (client: RawHttp2, net: TestNet, requests: string[]) => Promise<void>,
  options: TestNetOptions = {},
): Promise<void> {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target, ...options });
  using client = await RawHttp2.open(net);
  await attack(client, net, upstream.requests);
  upstream.close();
}

/** Sends the same frames until the connection ends, at most `most` times; meanwhile the answers are read. */
async function flood(client: RawHttp2, make: (at: number) => Uint8Array[], most: number): Promise<StreamEnd> {
  const end = client.end(0x7fffffff);
  let isOpen = true;
  end.then(() => isOpen = false);
  for (let at = 0; at < most && isOpen; at++) await client.send(...make(at)).catch(() => isOpen = false);
  return await end;
}

/** Length of the padding, and the padding. */
const PADDING = new Uint8Array([3, 0, 0, 0]);

const FLOODS: [name: string, make: (at: number) => Uint8Array[], most: number][] = [
  ["rapid reset", (at) => [h2Request(at * 2 + 1, h2Fields(), h2.END_HEADERS), reset(at * 2 + 1)], 20_000],
  [
    "streams that the host has to reset",
    (at) => [h2Post(at * 2 + 1), h2.numberFrame(h2.WINDOW_UPDATE, at * 2 + 1, 0)],
    20_000,
  ],
  ["requests that cannot be read", (at) => [h2Request(at * 2 + 1, h2Fields({ te: "gzip" }))], 20_000],
  [
    "bodies longer than they say",
    (at) => [h2Post(at * 2 + 1, { "content-length": "1" }), h2.frame(h2.DATA, 0, at * 2 + 1, bytes(2))],
    20_000,
  ],
  ["settings in one frame", () => [h2.settingsFrame(Array(2000).fill([h2.INITIAL_WINDOW_SIZE, 100]))], 200],
  ["streams beyond those that were offered", (at) => [h2Post(at * 2 + 1)], 20_000],
  ["pings", () => [h2.frame(h2.PING, 0, 0, bytes(8))], 200_000],
  ["settings", () => [h2.settingsFrame([[h2.INITIAL_WINDOW_SIZE, 100]])], 200_000],
  ["priorities", (at) => [h2.frame(h2.PRIORITY, 0, 2 * at + 1, bytes(5))], 200_000],
  ["frames of unknown types", () => [h2.frame(77, 0, 0, bytes(0))], 200_000],
  ["empty DATA", (at) => at === 0 ? [h2Post()] : [h2.frame(h2.DATA, 0, 1, bytes(0))], 200_000],
  [
    "DATA of padding alone",
    (at) => at === 0 ? [h2Post()] : [h2.frame(h2.DATA, h2.PADDED, 1, PADDING)],
    200_000,
  ],
];

Deno.test("a flood of frames ends its connection, and is one record", async (t) => {
  for (const [name, make, most] of FLOODS) {
    await t.step(name, () =>
      attacked(async (client, net) => {
        assertEquals((await flood(client, make, most)).goAway, h2.ENHANCE_YOUR_CALM);
        await net.idle();
        const floods = net.gate.entries.filter(({ decision }) => decision?.rule.id === "guard-http2-flood");
        assertEquals(floods.length, 1);
      }, { timeouts: { body: 20_000 } }));
  }
});

Deno.test("a rapid reset never has more exchanges under way than a connection may have", async () => {
  let most = 0;
  let now = 0;
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 5));
    now--;
    return new Response("ok");
  });
  await attacked(async (client) => {
    await flood(client, (at) => [h2Request(at * 2 + 1), reset(at * 2 + 1)], 20_000);
    assert(most <= 2 * STREAMS_MAX, `${most}`);
  }, { target: () => ({ hostname: "127.0.0.1", port: upstream.addr.port }) });
});

Deno.test("a header block without an end, and one that grows beyond its bytes, end the connection", async (t) => {
  const long: Header[] = [...h2Fields(), ["x-long", "y".repeat(4000)]];
  const indexed = new Uint8Array([0x40, 1, 120, 0x7f, 0xa1, 0x1e, ...new Uint8Array(4000).fill(121)]);
  const cases: [string, Uint8Array[]][] = [
    ["CONTINUATION without an end", [
      h2Request(1, h2Fields(), h2.END_STREAM),
      ...Array(10).fill(h2.frame(h2.CONTINUATION, 0, 1, bytes(16_000))),
    ]],
    ["empty CONTINUATION", [
      h2Request(1, h2Fields(), h2.END_STREAM),
      ...Array(20_000).fill(h2.frame(h2.CONTINUATION, 0, 1, bytes(0))),
    ]],
    ["a bomb: one entry of the table, a thousand times", [
      h2.frame(
        h2.HEADERS,
        h2.END_HEADERS | h2.END_STREAM,
        1,
        new Uint8Array([...h2.encodeHeaders(h2Fields()), ...indexed, ...new Uint8Array(1000).fill(0xbe)]),
      ),
    ]],
    ["a list beyond the limit", [
      h2.headerFrames(
        1,
        h2.encodeHeaders([
          ...long,
          ...Array.from({ length: 20 }, (_, at): Header => [`x-${at}`, "z".repeat(4000)]),
        ]),
        h2.FRAME_MAX,
        true,
      ),
    ]],
  ];
  for (const [name, frames] of cases) {
    await t.step(name, () =>
      attacked(async (client, net, requests) => {
        await client.send(...frames).catch(() => {});
        const { goAway, closed } = await client.end();
        assert(goAway !== undefined && goAway !== h2.NO_ERROR, `${goAway}`);
        assertEquals([closed, requests], [true, []]);
        assertEquals(net.gate.entries.map(({ decision }) => decision?.decision), ["block"]);
      }));
  }
  assert(HEAD_MAX < 10 * 16_000);
});

Deno.test("a head counts with all its fields, also where one byte stands for them", async () => {
  await attacked(async (client, net, requests) => {
    const long = new Uint8Array([0x40, 1, 120, 0x7f, 0xa1, 0x1e, ...bytes(4000).fill(121)]);
    for (const [at, field] of [long, new Uint8Array([0xbe])].entries()) {
      const block = new Uint8Array([...h2.encodeHeaders(h2Fields()), ...field]);
      await client.send(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 2 * at + 1, block));
      assertEquals((await client.end(2 * at + 1)).status, 200);
    }
    const [first, second] = net.gate.entries.map(({ event }) => event.http!.request.bytes);
    assert(first > 4000);
    assertEquals([second, requests[1].length], [first, requests[0].length]);
  });
});

Deno.test("more fields than a head may have are refused for their stream", async () => {
  await attacked(async (client, _, requests) => {
    const fields = [...h2Fields(), ...Array.from({ length: 250 }, (_, at): Header => [`x-${at}`, "1"])];
    await client.send(h2Request(1, fields));
    assertEquals([(await client.end()).status, requests], [400, []]);
  });
});

Deno.test("no request becomes two, and none names two hosts", async (t) => {
  const cases: [string, Record<string, string>, Header[]?][] = [
    ["CR LF in a value", { "x-a": "b\r\nGET /admin HTTP/1.1\r\nhost: other.example" }],
    ["LF in a value", { "x-a": "b\nx-b: c" }],
    ["NUL in a value", { "x-a": "b\0" }],
    ["CR LF in a name", { "x-a\r\nx-b": "c" }],
    ["a colon in a name", { "x-a: b": "c" }],
    ["CR LF in the path", { ":path": "/ HTTP/1.1\r\nhost: other.example\r\nx: y" }],
    ["a space in the path", { ":path": "/a /b" }],
    ["a URL in the path", { ":path": "http://other.example/" }],
    ["a fragment in the path", { ":path": "/#a" }],
    ["a method with a line", { ":method": "GET / HTTP/1.1\r\nx: y" }],
    ["CONNECT", { ":method": "CONNECT" }],
    ["CONNECT in lower case", { ":method": "connect" }],
    ["another scheme", { ":scheme": "https" }],
    ["another host", { host: "other.example" }],
    ["two hosts", { host: "api.example.com" }, [["host", "api.example.com"]]],
    ["user and host in :authority", { ":authority": "user@api.example.com" }],
    ["an empty :authority", { ":authority": "" }],
    ["transfer-encoding", { "transfer-encoding": "chunked" }],
    ["two lengths", { "content-length": "0" }, [["content-length", "0"]]],
    ["a length with a sign", { "content-length": "+0" }],
    ["a list of lengths", { "content-length": "0, 0" }],
    ["a length and no body", { "content-length": "12" }],
    ["white space in front of a value", { "x-a": " b" }],
    ["upgrade", { upgrade: "websocket", connection: "upgrade" }],
  ];
  for (const [name, changed, rest = []] of cases) {
    await t.step(name, () =>
      attacked(async (client, net, requests) => {
        await client.send(h2Request(1, [...h2Fields(changed), ...rest]));
        const { status } = await client.end();
        assert(status === 400 || status === 403, `${status}`);
        assertEquals(requests, []);
        assertEquals(net.gate.entries.at(-1)?.decision?.decision, "block");
      }));
  }
});

Deno.test("a body shorter or longer than its length is never sent as a whole one", async () => {
  for (const body of ["x", "x".repeat(20)]) {
    await attacked(async (client, _, requests) => {
      await client.send(
        h2Post(1, { "content-length": "10" }),
        h2.frame(h2.DATA, h2.END_STREAM, 1, new TextEncoder().encode(body)),
      );
      assertEquals([(await client.end()).status, requests], [400, []]);
    });
  }
});

Deno.test("bodies longer than they say take nothing of the connection's window", async () => {
  await attacked(async (client) => {
    const count = GUEST_CONNECTION_WINDOW / 16_000 + 1;
    for (let at = 0; at < count; at++) {
      const id = at * 2 + 1;
      await client.send(h2Post(id, { "content-length": "1" }), h2.frame(h2.DATA, 0, id, bytes(16_000)));
      assertEquals((await client.end(id)).status, 400);
    }
    await client.send(h2Request(2 * Math.ceil(count) + 1));
    assertEquals((await client.end(2 * Math.ceil(count) + 1)).status, 200);
  });
});

Deno.test("fields that imitate the framing of HTTP/1.1 are dropped", async () => {
  await attacked(async (client, _, requests) => {
    await client.send(h2Request(1, h2Fields({ "transfer_encoding": "chunked", "content!length": "7" })));
    assertEquals((await client.end()).status, 200);
    assertEquals(/transfer|content/.test(requests[0]), false);
  });
});

Deno.test("a window of 0 holds no answer and no upstream for longer than a client may be idle", async (t) => {
  const answers = [["short", 100], ["long", 100_000]] as const;
  for (const [name, length] of answers) {
    await t.step(name, async () => {
      const upstream = fixedUpstream(
        `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n${"x".repeat(length)}`,
      );
      await using net = await TestNet.open({
        target: () => upstream.target,
        timeouts: { body: 300, keepAlive: 2000 },
      });
      using client = await RawHttp2.open(net, [h2.settingsFrame([[h2.INITIAL_WINDOW_SIZE, 0]])]);
      await client.send(h2Request());
      const { status, reset: code, closed } = await client.end();
      assertEquals([status, code, closed], [200, h2.CANCEL, undefined]);
      await net.idle();
      upstream.close();
    });
  }
});

Deno.test("a VM cannot hold more memory than its connections of HTTP/2 may have", async () => {
  await attacked(async (first, net) => {
    const clients = [first];
    for (let at = 1; at < HTTP2_CONNECTIONS_MAX; at++) clients.push(await RawHttp2.open(net));
    for (const client of clients) await client.next(h2.SETTINGS);
    using last = await RawHttp2.open(net);
    assertEquals((await last.end()).goAway, h2.ENHANCE_YOUR_CALM);
    clients.pop()![Symbol.dispose]();
    while (net.proxy.size.guests >= HTTP2_CONNECTIONS_MAX) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    using again = await RawHttp2.open(net);
    await again.send(h2Request());
    assertEquals((await again.end()).status, 200);
    for (const client of clients) client[Symbol.dispose]();
  });
  assert(HTTP2_CONNECTIONS_MAX * GUEST_CONNECTION_WINDOW <= 256 * 1024 * 1024);
});
