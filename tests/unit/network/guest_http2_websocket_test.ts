/** WebSockets of guests on a stream of HTTP/2 (RFC 8441): the relay of HTTP/1.1, on one stream of many. */
import { assert, assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { h2Fields, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";
import { frameBytes, guestFrame } from "../../helper/websocket.ts";

const SOCKET = {
  ":method": "CONNECT",
  ":protocol": "websocket",
  ":path": "/chat",
  "sec-websocket-version": "13",
  "sec-websocket-protocol": "talk",
};
const open = (stream: number, more: Record<string, string | undefined> = {}) =>
  h2Request(stream, h2Fields({ ...SOCKET, ...more }), h2.END_HEADERS);

/** Payloads of DATA frames until they are as long as a text. */
async function received(client: RawHttp2, count: number): Promise<Uint8Array> {
  const bytes: number[] = [];
  while (bytes.length < count) bytes.push(...(await client.next(h2.DATA)).payload);
  return Uint8Array.from(bytes);
}

async function withSockets(
  run: (client: RawHttp2, net: TestNet) => Promise<void>,
  rules?: string,
): Promise<void> {
  await using upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    if (request.headers.get("upgrade") !== "websocket") return new Response("no socket");
    if (request.url.endsWith("/none")) return new Response("no socket");
    const { socket, response } = Deno.upgradeWebSocket(request, { protocol: "talk" });
    socket.onmessage = ({ data }) => socket.send(`${data}!`);
    return response;
  });
  const target = { hostname: "127.0.0.1", port: upstream.addr.port };
  await using net = await TestNet.open({ target: () => target, ...(rules !== undefined && { rules }) });
  using client = await RawHttp2.open(net);
  await run(client, net);
}

Deno.test("a WebSocket is offered, opened on a stream, relayed and closed, beside other requests", async () => {
  await withSockets(async (client, net) => {
    const settings = await client.next(h2.SETTINGS);
    const ids = Array.from({ length: settings.payload.length / 6 }, (_, at) => settings.payload[at * 6 + 1]);
    assert(ids.includes(h2.ENABLE_CONNECT_PROTOCOL));
    await client.send(open(1));
    const { fields, flags } = await client.next(h2.HEADERS);
    assertEquals([fields![0], flags & h2.END_STREAM], [[":status", "200"], 0]);
    assert(fields!.some(([name, value]) => name === "sec-websocket-protocol" && value === "talk"));
    assertEquals(fields!.some(([name]) => name === "sec-websocket-accept"), false);
    for (const text of ["hello", "again"]) {
      await client.send(h2.frame(h2.DATA, 0, 1, guestFrame({ payload: text })));
      const expected = frameBytes({ payload: `${text}!` });
      assertEquals(await received(client, expected.length), expected);
    }
    await client.send(h2Request(3, h2Fields({ ":path": "/plain" })));
    assertEquals((await client.end(3)).body, "no socket");
    await client.send(
      h2.frame(h2.DATA, h2.END_STREAM, 1, guestFrame({ opcode: 8, payload: new Uint8Array([3, 232]) })),
    );
    const end = await client.end(1);
    assertEquals(end.reset ?? h2.NO_ERROR, h2.NO_ERROR);
    client.conn.close();
    await net.idle();
    const { event, outcome } = net.gate.entries[0];
    assertEquals(event.http!.request.headers["upgrade"], ["websocket"]);
    assertEquals([event.http!.request.method, event.http!.request.path], ["GET", "/chat"]);
    assertEquals((outcome!.response as { status: number }).status, 101);
  });
});

Deno.test("a client that resets the stream of its WebSocket ends it", async () => {
  await withSockets(async (client, net) => {
    await client.send(open(1));
    await client.next(h2.HEADERS);
    await client.send(h2.numberFrame(h2.RST_STREAM, 1, h2.CANCEL), h2Request(3));
    assertEquals((await client.end(3)).status, 200);
    client.conn.close();
    await net.idle();
    assertEquals(net.proxy.size.upstreams <= 1, true);
  });
});

Deno.test("an upstream without a WebSocket is never taken for one that has accepted it", async () => {
  await withSockets(async (client) => {
    await client.send(open(1, { ":path": "/none" }));
    assertEquals((await client.end()).status, 502);
  });
});

Deno.test("rules decide on the request, and what is no handshake is refused", async () => {
  const rules = `[profiles.rules.no-sockets]
name = "no sockets"
action = "block"
match = 'http.request.path == "/chat"'
`;
  await withSockets(async (client) => {
    await client.send(open(1));
    const blocked = await client.end(1);
    assertEquals([blocked.status, JSON.parse(blocked.body).rule.id], [403, "no-sockets"]);
    let stream = 3;
    for (
      const more of [
        { ":protocol": "connect-udp" },
        { ":protocol": undefined },
        { ":method": "GET" },
        { "sec-websocket-version": "12" },
        { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" },
      ]
    ) {
      await client.send(open(stream, { ":path": "/other", ...more }));
      assertEquals((await client.end(stream)).status, 400, JSON.stringify(more));
      stream += 2;
    }
    await client.send(h2Request(stream, h2Fields({ ...SOCKET, ":path": "/other" })));
    assertEquals((await client.end(stream)).status, 400);
  }, rules);
});
