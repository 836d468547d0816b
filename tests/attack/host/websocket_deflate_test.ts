/**
 * Compressed messages of WebSockets: bombs, bytes that hide, and secrets, against the real proxy and broker.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import { BUFFERED_TOTAL_MAX, SOCKET_DEFLATE_BYTES, SOCKET_INFLATED_MAX } from "../../../lib/network/limit.ts";
import { added, ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import type { RawClient } from "../../helper/net_client.ts";
import {
  frameBytes,
  guestFrame,
  openRaw,
  RawUpstreams,
  readClose,
  readFrame,
  upgradeHead,
  type WireFrame,
} from "../../helper/websocket.ts";

const HOST = "chat.example.com";
const OFFER = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
const AGREED = "sec-websocket-extensions: permessage-deflate\r\n";
const upstreams = new RawUpstreams();

/** A message's compressed payload. */
function packed(text: string | Uint8Array): Uint8Array {
  return deflateRawSync(text, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -4);
}

/** Text of a frame of a compressed message, without a window. */
function unpacked({ payload }: { payload: string }): string {
  const bytes = Uint8Array.from([...payload].map((char) => char.charCodeAt(0)));
  return `${inflateRawSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH })}`;
}

/** A guest and an upstream that both agreed to compress. */
async function compressed(net: TestNet, serve: (client: RawClient) => Promise<unknown>) {
  const upstream = await upstreams.open(net, HOST, async (client) => void await serve(client), AGREED);
  return { upstream, guest: await openRaw(net, HOST, "/", OFFER) };
}

const BOMB = packed(new Uint8Array(SOCKET_INFLATED_MAX + 1));
const half = packed("hello");
const WRONG: Record<string, [frames: WireFrame[], code: number]> = {
  "a bomb": [[{ rsv: 4, opcode: 2, payload: BOMB }], 1009],
  "a bomb in fragments": [
    Array.from({ length: Math.ceil(BOMB.length / 1000) }, (_, at): WireFrame => ({
      rsv: at === 0 ? 4 : 0,
      opcode: at === 0 ? 2 : 0,
      fin: (at + 1) * 1000 >= BOMB.length,
      payload: BOMB.subarray(at * 1000, (at + 1) * 1000),
    })),
    1009,
  ],
  "a compressed ping": [[{ rsv: 4, opcode: 9, payload: "x" }], 1002],
  "a compressed close": [[{ rsv: 4, opcode: 8, payload: new Uint8Array([3, 232]) }], 1002],
  "a continuation that says it is compressed": [
    [{ rsv: 4, fin: false, payload: half }, { rsv: 4, opcode: 0, payload: "" }],
    1002,
  ],
  "another reserved bit": [[{ rsv: 6, payload: half }], 1002],
  "bytes that are not compressed": [[{ rsv: 4, payload: "\x07\x07\x07" }], 1007],
  "bytes behind a final block": [
    [{ rsv: 4, payload: Uint8Array.from([...deflateRawSync("hello"), 0x68]) }],
    1007,
  ],
  "text that is not UTF-8 once it is inflated": [
    [{ rsv: 4, payload: packed(Uint8Array.of(0xc3, 0x28)) }],
    1007,
  ],
};

Deno.test("compressed messages that are bombs, or that two programs could read differently, end the WebSocket", async (t) => {
  await using net = await TestNet.open({ target: upstreams.target });
  for (const [name, [frames, code]] of Object.entries(WRONG)) {
    await t.step(`${name}, of the guest`, async () => {
      const seen = Promise.withResolvers<number>();
      const { upstream, guest } = await compressed(
        net,
        async (client) => seen.resolve(await readClose(client)),
      );
      for (const frame of frames) await guest.send(guestFrame(frame)).catch(() => {});
      assertEquals([await readClose(guest), await seen.promise], [code, code]);
      guest.close();
      await net.idle();
      assertEquals(net.gate.entries.at(-1)!.decision!.rule.id, "guard-malformed-websocket");
      upstream.close();
    });
    await t.step(`${name}, of the upstream`, async () => {
      const { upstream, guest } = await compressed(net, async (client) => {
        for (const frame of frames) await client.send(frameBytes(frame)).catch(() => {});
        await client.rest();
      });
      assertEquals(await readClose(guest), code);
      guest.close();
      await net.idle();
      assertStringIncludes(net.gate.entries.at(-1)!.outcome!.error!, "the upstream sent a WebSocket frame");
      upstream.close();
    });
  }
});

Deno.test("a window that was given up cannot be used, and a frame is not compressed unless that was agreed on", async () => {
  await using net = await TestNet.open({ target: upstreams.target });
  const upstream = await upstreams.open(net, HOST, async (client) => {
    await readClose(client);
    await client.send(frameBytes({ opcode: 8, payload: new Uint8Array([3, 232]) }));
  });
  const keeps = await openRaw(net, HOST, "/", OFFER);
  const first = packed("a text of the first message");
  // The same text again, as a reference into the first message: made by zlib with the text as its dictionary.
  const second = Uint8Array.of(0x4a, 0xc4, 0x2d, 0x05, 0x00);
  for (const frame of [first, second]) await keeps.send(guestFrame({ rsv: 4, payload: frame }));
  await keeps.send(guestFrame({ opcode: 8, payload: "" }));
  assertEquals(await readClose(keeps), 1000);
  keeps.close();
  const guest = await openRaw(net, HOST, "/", OFFER.replace("\r\n", "; client_no_context_takeover\r\n"));
  await guest.send(guestFrame({ rsv: 4, payload: first }));
  await guest.send(guestFrame({ rsv: 4, payload: second }));
  assertEquals(await readClose(guest), 1007);
  guest.close();
  const plain = await openRaw(net, HOST);
  await plain.send(guestFrame({ rsv: 4, payload: first }));
  assertEquals(await readClose(plain), 1002);
  plain.close();
  upstream.close();
});

Deno.test(
  "a secret in a compressed message of a guest does not leave, in one frame or cut into many",
  world(added, async ({ open }) => {
    await using net = await TestNet.open({ target: upstreams.target, broker: await open(ALL) });
    const bytes = packed(`here it is: ${KEY.mcp}!`);
    for (const cut of [bytes.length, 1]) {
      const received = Promise.withResolvers<string>();
      const { upstream, guest } = await compressed(net, async (client) => {
        let all = "";
        for (let frame = await readFrame(client);; frame = await readFrame(client)) {
          all += frame.payload;
          if (!frame.fin) continue;
          return received.resolve(unpacked({ payload: all }));
        }
      });
      for (let at = 0; at < bytes.length; at += cut) {
        const opcode = at === 0 ? 1 : 0;
        const fin = at + cut >= bytes.length;
        const payload = bytes.slice(at, at + cut);
        await guest.send(guestFrame({ rsv: at === 0 ? 4 : 0, opcode, fin, payload }));
      }
      const text = await received.promise;
      assert(text.startsWith("here it is: ") && text.endsWith("!"), text);
      for (let at = 0; at + 9 <= KEY.mcp.length; at++) {
        assert(!text.includes(KEY.mcp.slice(at, at + 9)), text);
      }
      guest.close();
      upstream.close();
    }
  }),
);

Deno.test(
  "a host that has a credential is offered no compression: lengths on the line would reveal the secret",
  world(added, async ({ open, refs }) => {
    await using net = await TestNet.open({ target: upstreams.target, broker: await open(ALL) });
    const host = "api.github.com";
    const received = Promise.withResolvers<[number, string]>();
    const upstream = await upstreams.open(net, host, async (client, head) => {
      const { rsv, payload } = await readFrame(client);
      received.resolve([rsv, payload]);
      const secret = /authorization: (.*)\r\n/.exec(head)![1];
      await client.send(frameBytes({ payload: `you are ${secret}` }));
      await client.rest();
    });
    const guest = await openRaw(net, host, "/", `${OFFER}Authorization: Bearer ${refs.github}\r\n`);
    assert(!/extensions/i.test(upstream.heads[0]), upstream.heads[0]);
    assertStringIncludes(upstream.heads[0], KEY.github);
    await guest.send(guestFrame({ rsv: 4, payload: packed("who am I?") }));
    assertEquals(await received.promise, [0, "who am I?"]);
    assertEquals((await readFrame(guest)).payload, `you are Bearer ${refs.github}`);
    guest.close();
    upstream.close();
  }),
);

Deno.test("windows of compression count as buffered bytes: in a half of them, and without room none is agreed on", async () => {
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onmessage = ({ data }) => socket.send(data);
    return response;
  });
  const target = { hostname: "127.0.0.1", port: server.addr.port };
  await using net = await TestNet.open({ target: () => target });
  const guests: RawClient[] = [];
  const agreed = async () => {
    const guest = await net.client();
    guests.push(guest);
    const { status, headers } = await guest.ask(upgradeHead(HOST, "/", OFFER));
    assertEquals(status, 101);
    return headers.get("sec-websocket-extensions") !== null;
  };
  const most = BUFFERED_TOTAL_MAX / 2 / SOCKET_DEFLATE_BYTES;
  for (let at = 0; at < most; at++) assert(await agreed());
  assert(!await agreed());
  await guests.at(-1)!.send(guestFrame({ payload: "plain" }));
  assertEquals((await readFrame(guests.at(-1)!)).payload, "plain");
  for (const guest of guests) guest.close();
  await net.idle();
  assert(await agreed());
  guests.at(-1)!.close();
});
