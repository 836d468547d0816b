/** Secrets in the frames of a guest's WebSocket, against the real proxy, broker and policy. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { added, ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { frameBytes, guestFrame, RawUpstreams, readFrame, type WireFrame } from "../../helper/websocket.ts";

const HOST = "chat.example.com";
const upstreams = new RawUpstreams();

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

Deno.test(
  "no secret and no ref that a guest sends in frames leaves, however it is cut",
  world(added, async ({ open, refs }) => {
    await using net = await TestNet.open({ target: upstreams.target, broker: await open(ALL) });
    for (const what of [KEY.anthropic, KEY.mcp, refs.anthropic]) {
      for (const [name, frames] of Object.entries(framings(what, Math.floor(what.length / 2)))) {
        const received = Promise.withResolvers<string>();
        const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
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
    await using net = await TestNet.open({ target: upstreams.target, broker: await open(ALL) });
    for (const secret of [KEY.github, KEY.mcp]) {
      for (const [name, frames] of Object.entries(framings(secret, Math.floor(secret.length / 2)))) {
        const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
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
    await using net = await TestNet.open({ target: upstreams.target, broker: await open(ALL) });
    const pings: string[] = [];
    const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => {
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
