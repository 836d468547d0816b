/**
 * WebSockets of a guest against the real proxy and policy: upgrades and frames that
 * would be a tunnel for other bytes.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { added, ALL, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import {
  frameBytes,
  guestFrame,
  openSocket,
  RawUpstreams,
  readClose,
  readFrame,
  readMessage,
  socketServer,
  upgradeHead,
  type WireFrame,
} from "../../helper/websocket.ts";

const HOST = "chat.example.com";
const upstreams = new RawUpstreams();

Deno.test("model calls do not hide in a WebSocket whose messages nobody reads: its upgrade is refused", async () => {
  await using net = await TestNet.open({ target: upstreams.target });
  for (
    const host of ["api.openai.com", "generativelanguage.googleapis.com", "eu-aiplatform.googleapis.com"]
  ) {
    const upstream = await upstreams.open(net, host, () => Promise.resolve());
    const client = await net.tls(host);
    assertEquals((await client.ask(upgradeHead(host, "/v1/stream"))).status, 403);
    client.close();
    const { event, decision } = net.gate.entries.at(-1)!;
    assertEquals([event.http!.request.headers["upgrade"], decision!.rule.id], [
      ["websocket"],
      "block-model-websocket",
    ]);
    assertEquals(upstream.heads, []);
    upstream.close();
  }
});

Deno.test("an upstream's answer to a handshake that does not fit it is refused", async (t) => {
  await using net = await TestNet.open({ target: upstreams.target });
  for (
    const [name, more, text] of [
      ["an extension that was not offered", "sec-websocket-extensions: permessage-deflate\r\n", "extension"],
      ["an answer that did not read the key", "sec-websocket-accept: AAAA\r\n", "Sec-WebSocket-Accept"],
    ]
  ) {
    await t.step(name, async () => {
      const upstream = await upstreams.open(net, HOST, async (client) => void await client.rest(), more);
      const client = await net.tls(HOST);
      assertEquals((await client.ask(upgradeHead(HOST, "/"))).status, 502);
      assertStringIncludes(net.gate.entries.at(-1)!.outcome!.error!, text);
      client.close();
      upstream.close();
    });
  }
});

const INVALID: Record<string, [WireFrame[], code?: number]> = {
  "a reserved bit": [[{ rsv: 4, payload: "x" }]],
  "a reserved opcode": [[{ opcode: 3, payload: "x" }]],
  "a reserved control opcode": [[{ opcode: 11, payload: "x" }]],
  "a continuation of nothing": [[{ opcode: 0, payload: "x" }]],
  "a message within another": [[{ fin: false, payload: "x" }, { payload: "y" }]],
  "a long ping": [[{ opcode: 9, payload: "x".repeat(126) }]],
  "a fragmented ping": [[{ opcode: 9, fin: false, payload: "x" }]],
  "a long form of a short length": [[{ payload: "x", lengthBits: 16 }]],
  "a longer form of a short length": [[{ payload: "x".repeat(200), lengthBits: 64 }]],
  "half a close code": [[{ opcode: 8, payload: "x" }]],
  "a close code that is never sent": [[{ opcode: 8, payload: new Uint8Array([3, 238]) }]],
  "text that is not UTF-8": [[{ payload: new Uint8Array([0xc3, 0x28]) }], 1007],
  "text that ends within a character": [
    [{ fin: false, payload: new Uint8Array([0xc3]) }, { opcode: 0 }],
    1007,
  ],
};

Deno.test("frames that two programs could read differently end the WebSocket, and are recorded", async (t) => {
  await using net = await TestNet.open({ target: upstreams.target });
  for (const [name, [frames, code = 1002]] of Object.entries(INVALID)) {
    await t.step(`${name}, of the guest`, async () => {
      const seen = Promise.withResolvers<number>();
      const { upstream, guest } = await upstreams.pair(
        net,
        HOST,
        async (client) => seen.resolve(await readClose(client)),
      );
      for (const frame of frames) await guest.send(guestFrame(frame));
      assertEquals([await readClose(guest), await seen.promise], [code, code]);
      guest.close();
      await net.idle();
      const [upgrade, refused] = net.gate.entries.slice(-2);
      assertStringIncludes(
        upgrade.outcome!.error!,
        "the client sent a WebSocket frame that cannot be read safely",
      );
      assertEquals(refused.decision!.rule.id, "guard-malformed-websocket");
      assertEquals(refused.event.common.labels["event_id"], upgrade.event.common.event_id);
      upstream.close();
    });
    await t.step(`${name}, of the upstream`, async () => {
      const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
        for (const frame of frames) await client.send(frameBytes(frame));
        await client.rest();
      });
      assertEquals(await readClose(guest), code);
      guest.close();
      await net.idle();
      const text = "the upstream sent a WebSocket frame that cannot be read safely";
      assertStringIncludes(net.gate.entries.at(-1)!.outcome!.error!, text);
      upstream.close();
    });
  }
  await t.step("frames of the wrong side", async () => {
    const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
      await client.send(guestFrame({ payload: "x" }));
      await client.rest();
    });
    assertEquals(await readClose(guest), 1002);
    guest.close();
    upstream.close();
    const other = await upstreams.pair(net, HOST, async (client) => void await client.rest());
    await other.guest.send(frameBytes({ payload: "x" }));
    assertEquals(await readClose(other.guest), 1002);
    other.guest.close();
    other.upstream.close();
  });
});

Deno.test("an upgrade that is no handshake of WebSocket is refused: what follows would not be frames", async () => {
  await using net = await TestNet.open({ target: upstreams.target });
  const upstream = await upstreams.open(net, HOST, () => Promise.resolve());
  const head = upgradeHead(HOST, "/");
  for (
    const changed of [
      head.replace("GET", "POST"),
      head.replace("HTTP/1.1", "HTTP/1.0"),
      head.replace("Version: 13", "Version: 8"),
      head.replace(/Sec-WebSocket-Key: .*\r\n/, ""),
      head.replace("ZQ==", "!!=="),
      head.replace("Host:", "Content-Length: 3\r\nHost:") + "abc",
      head.replace("Host:", "Sec-WebSocket-Version: 13\r\nHost:"),
    ]
  ) {
    const client = await net.tls(HOST);
    assertEquals((await client.ask(changed)).status, 400, changed);
    client.close();
    assertEquals(net.gate.entries.at(-1)!.decision!.rule.id, "guard-malformed-http");
  }
  assertEquals(upstream.heads, []);
  upstream.close();
});

Deno.test(
  "real clients and servers talk as before",
  world(added, async ({ open, refs }) => {
    await using net = await TestNet.open({ target: () => server.target, broker: await open(ALL) });
    const server = socketServer(await net.leaf("api.github.com"), (socket, headers) => {
      const authorization = headers.get("authorization");
      socket.onmessage = ({ data }) => {
        if (data === "who") socket.send(`you are ${authorization}`);
        else if (data === "bye") socket.close(4001, "see you");
        else socket.send(data);
      };
    });
    const guest = await openSocket(net, "wss://api.github.com/socket", {
      authorization: `Bearer ${refs.github}`,
    });
    guest.socket.send("grüße 🙂");
    assertEquals(await guest.next(), "grüße 🙂");
    const large = "ü".repeat(3_000_000);
    guest.socket.send(large);
    assertEquals(await guest.next(), large);
    guest.socket.send(new Uint8Array(100_000).fill(120));
    assertEquals(await guest.next(), "x".repeat(100_000));
    // The server holds the secret, and the guest gets the ref that it sent.
    guest.socket.send("who");
    assertEquals(await guest.next(), `you are Bearer ${refs.github}`);
    guest.socket.send("bye");
    const { code, reason } = await guest.closed;
    assertEquals([code, reason], [4001, "see you"]);
    guest.dispose();
    await net.idle();
    assertEquals(net.gate.entries[0].outcome!.error, undefined);
    await server.close();
  }),
);

Deno.test("a long message passes in fragments, and a short one as it came", async () => {
  await using net = await TestNet.open({ target: upstreams.target });
  const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
    await client.send(frameBytes({ fin: false, payload: "a" }));
    await client.send(frameBytes({ opcode: 0, payload: "b" }));
    await client.send(frameBytes({ opcode: 2, payload: new Uint8Array(3 << 20).fill(97) }));
    await client.rest();
  });
  const [first, second] = [await readFrame(guest), await readFrame(guest)];
  assertEquals([first.fin, first.opcode, first.payload], [false, 1, "a"]);
  assertEquals([second.fin, second.opcode, second.payload], [true, 0, "b"]);
  assertEquals((await readMessage(guest)).length, 3 << 20);
  guest.close();
  upstream.close();
});
