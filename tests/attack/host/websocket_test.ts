/** WebSockets of a guest against the real proxy, broker and policy: secrets and model calls in frames. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { added, ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import type { RawClient } from "../../helper/net_client.ts";
import {
  frameBytes,
  guestFrame,
  openRaw,
  openSocket,
  rawSocketUpstream,
  readClose,
  readFrame,
  readMessage,
  socketServer,
  upgradeHead,
  type WireFrame,
} from "../../helper/websocket.ts";

const HOST = "chat.example.com";

/** A guest's WebSocket and its upstream, both with frames of the test. */
async function pair(net: TestNet, serve: (upstream: RawClient) => Promise<void>, host = HOST) {
  const upstream = rawSocketUpstream(await net.leaf(host), serve);
  target = upstream.target;
  return { upstream, guest: await openRaw(net, host) };
}

let target = { hostname: "", port: 0 };
const recorded = (net: TestNet) => JSON.stringify(net.gate.entries);
const substitutions = (net: TestNet) =>
  net.gate.entries.flatMap(({ event }) => event.credential ? [event.credential.substitution] : []);

/** One text in frames: whole, fragmented, binary, and as several messages. */
function framings(text: string, cut: number): Record<string, WireFrame[]> {
  const [head, tail] = [text.slice(0, cut), text.slice(cut)];
  return {
    "one text frame": [{ payload: text }],
    "one binary frame": [{ opcode: 2, payload: text }],
    "two frames": [{ fin: false, payload: head }, { opcode: 0, payload: tail }],
    "two frames with a ping between": [
      { fin: false, payload: head },
      { opcode: 9, payload: "x" },
      { opcode: 0, payload: tail },
    ],
    "a frame a character": [...text].map((payload, at): WireFrame => ({
      fin: at === text.length - 1,
      opcode: at === 0 ? 1 : 0,
      payload,
    })),
    "two messages": [{ payload: head }, { payload: tail }],
    "two messages of two kinds": [{ payload: head }, { opcode: 2, payload: tail }],
    "a message and a reason to close": [
      { payload: head },
      { opcode: 8, payload: new Uint8Array([0x0f, 0xa0, ...new TextEncoder().encode(tail)]) },
    ],
  };
}

Deno.test("model calls do not hide in a WebSocket whose messages nobody reads: its upgrade is refused", async () => {
  await using net = await TestNet.open({ target: () => target });
  for (
    const host of ["api.openai.com", "generativelanguage.googleapis.com", "eu-aiplatform.googleapis.com"]
  ) {
    const upstream = rawSocketUpstream(await net.leaf(host), () => Promise.resolve());
    target = upstream.target;
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

Deno.test(
  "no secret and no ref that a guest sends in frames leaves, however it is cut",
  world(added, async ({ open, refs }) => {
    await using net = await TestNet.open({ target: () => target, broker: await open(ALL) });
    for (const what of [KEY.anthropic, KEY.mcp, refs.anthropic]) {
      for (const [name, frames] of Object.entries(framings(what, Math.floor(what.length / 2)))) {
        const received = Promise.withResolvers<string>();
        const { upstream, guest } = await pair(net, async (client) => {
          let all = "";
          for (let frame = await readFrame(client);; frame = await readFrame(client)) {
            assert(frame.masked, "frames to an upstream are masked");
            all += frame.opcode === 9 ? "" : frame.payload;
            if (frame.opcode === 8 || all.endsWith("END")) break;
          }
          received.resolve(all);
        });
        for (const frame of frames) await guest.send(guestFrame(frame));
        if (!name.endsWith("close")) await guest.send(guestFrame({ payload: "END" }));
        const all = await received.promise;
        assert(!all.includes(what), `${name}: ${all}`);
        // Eight characters of a secret pass at most; a part of a ref is no secret.
        if (!what.startsWith("credential:")) {
          const secret = what.slice(what.lastIndexOf("-") + 1);
          for (let at = 0; at + 10 < secret.length; at += 5) {
            assert(!all.includes(secret.slice(at, at + 10)), `${name}: ${all}`);
          }
          assertStringIncludes(all, "withheld", name);
        }
        guest.close();
        upstream.close();
      }
    }
    assert(!recorded(net).includes(KEY.anthropic) && !recorded(net).includes(KEY.mcp));
    const outcomes = new Set(substitutions(net).map(({ outcome, location }) => `${outcome} ${location}`));
    assertEquals([...outcomes], ["denied message"]);
  }),
);

Deno.test(
  "no known secret in an upstream's frames reaches the guest, however it is cut",
  world(added, async ({ open, refs }) => {
    await using net = await TestNet.open({ target: () => target, broker: await open(ALL) });
    for (const secret of [KEY.github, KEY.mcp]) {
      for (const [name, frames] of Object.entries(framings(secret, Math.floor(secret.length / 2)))) {
        const { upstream, guest } = await pair(net, async (client) => {
          for (const frame of frames) await client.send(frameBytes(frame));
          if (!name.endsWith("close")) await client.send(frameBytes({ payload: "END" }));
          await client.rest();
        });
        let all = "";
        while (!all.endsWith("END")) {
          const { opcode, payload, masked } = await readFrame(guest);
          assert(!masked);
          all += opcode === 9 ? "" : payload;
          if (opcode === 8) break;
        }
        for (let at = 0; at + 9 < secret.length; at++) {
          assert(!all.includes(secret.slice(at, at + 9)), `${name}: ${all}`);
        }
        const whole = name.includes("frame") || name.startsWith("one");
        if (whole) assertStringIncludes(all, secret === KEY.github ? refs.github : refs.mcp, name);
        guest.close();
        upstream.close();
      }
    }
    assert(!recorded(net).includes(KEY.github));
    assert(substitutions(net).some(({ outcome }) => outcome === "brokered"));
  }),
);

Deno.test(
  "a ping carries nothing across: its payload comes back only in the answer to it",
  world(added, async ({ open }) => {
    await using net = await TestNet.open({ target: () => target, broker: await open(ALL) });
    const pings: string[] = [];
    const { upstream, guest } = await pair(net, async (client) => {
      const { payload } = await readFrame(client);
      pings.push(payload);
      await client.send(frameBytes({ opcode: 9, payload: KEY.github }));
      await client.send(frameBytes({ opcode: 10, payload: KEY.mcp }));
      const bytes = Uint8Array.from(payload, (char) => char.charCodeAt(0));
      await client.send(frameBytes({ opcode: 10, payload: bytes }));
      await client.rest();
    });
    await guest.send(guestFrame({ opcode: 9, payload: KEY.anthropic }));
    const [ping, pong] = [await readFrame(guest), await readFrame(guest)];
    assertEquals([ping.opcode, ping.payload.length], [9, 4]);
    assertEquals([pong.opcode, pong.payload], [10, KEY.anthropic]);
    assertEquals(pings.map((payload) => payload.length), [4]);
    guest.close();
    upstream.close();
  }),
);

Deno.test(
  "a decoy in a message is withheld like any other credential, and is a finding",
  world([{ provider: "github", secret: KEY.github, decoy: true }], async ({ open }) => {
    await using net = await TestNet.open({ target: () => target, broker: await open(ALL) });
    const received = Promise.withResolvers<string>();
    const { upstream, guest } = await pair(net, async (client) => {
      received.resolve((await readFrame(client)).payload);
    });
    await guest.send(guestFrame({ payload: `take ${KEY.github}` }));
    const got = await received.promise;
    assert(got.startsWith("take credential-withheld") && !got.includes(KEY.github), got);
    guest.close();
    await net.idle();
    assertEquals(substitutions(net).map(({ reason }) => reason), ["decoy"]);
    assert(
      net.gate.notices.some(({ type, payload }) =>
        type === "finding" && JSON.stringify(payload).includes("credential-decoy")
      ),
    );
    upstream.close();
  }),
);

Deno.test("compression is not negotiated: its frames could not be searched", async (t) => {
  await using net = await TestNet.open({ target: () => target });
  await t.step("a guest's offer is not passed on", async () => {
    const upstream = rawSocketUpstream(await net.leaf(HOST), async (client) => void await client.rest());
    target = upstream.target;
    const offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    const client = await net.tls(HOST);
    const { status, headers } = await client.ask(upgradeHead(HOST, "/", offer));
    assertEquals([status, headers.get("sec-websocket-extensions")], [101, null]);
    assert(!/extensions/i.test(upstream.heads[0]), upstream.heads[0]);
    client.close();
    upstream.close();
  });
  for (
    const [name, more, text] of [
      [
        "an upstream that uses one regardless is refused",
        "sec-websocket-extensions: permessage-deflate\r\n",
        "extension",
      ],
      ["so is one that did not read the key", "sec-websocket-accept: AAAA\r\n", "Sec-WebSocket-Accept"],
    ]
  ) {
    await t.step(name, async () => {
      const upstream = rawSocketUpstream(
        await net.leaf(HOST),
        async (client) => void await client.rest(),
        more,
      );
      target = upstream.target;
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
  await using net = await TestNet.open({ target: () => target });
  for (const [name, [frames, code = 1002]] of Object.entries(INVALID)) {
    await t.step(`${name}, of the guest`, async () => {
      const seen = Promise.withResolvers<number>();
      const { upstream, guest } = await pair(net, async (client) => seen.resolve(await readClose(client)));
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
      const { upstream, guest } = await pair(net, async (client) => {
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
    const { upstream, guest } = await pair(net, async (client) => {
      await client.send(guestFrame({ payload: "x" }));
      await client.rest();
    });
    assertEquals(await readClose(guest), 1002);
    guest.close();
    upstream.close();
    const other = await pair(net, async (client) => void await client.rest());
    await other.guest.send(frameBytes({ payload: "x" }));
    assertEquals(await readClose(other.guest), 1002);
    other.guest.close();
    other.upstream.close();
  });
});

Deno.test("an upgrade that is no handshake of WebSocket is refused: what follows would not be frames", async () => {
  await using net = await TestNet.open({ target: () => target });
  const upstream = rawSocketUpstream(await net.leaf(HOST), () => Promise.resolve());
  target = upstream.target;
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
    await using net = await TestNet.open({ target: () => target, broker: await open(ALL) });
    const server = socketServer(await net.leaf("api.github.com"), (socket, headers) => {
      const authorization = headers.get("authorization");
      socket.onmessage = ({ data }) => {
        if (data === "who") socket.send(`you are ${authorization}`);
        else if (data === "bye") socket.close(4001, "see you");
        else socket.send(data);
      };
    });
    target = server.target;
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
  await using net = await TestNet.open({ target: () => target });
  const { upstream, guest } = await pair(net, async (client) => {
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
