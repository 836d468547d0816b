/** How WebSockets end, and what their events say of them then. */
import { assertEquals } from "@std/assert";
import type { HttpEvent } from "../../../lib/event/mod.ts";
import { NO_HTTP_BODY } from "../../../lib/network/exchange/draft.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import type { RawClient } from "../../helper/net_client.ts";
import { frameBytes, guestFrame, RawUpstreams, readFrame } from "../../helper/websocket.ts";

const HOST = "api.example.com";
const CLOSE_1000 = new Uint8Array([3, 232]);
/** Longer than any test. */
const NEVER_MS = 3_600_000;

/** Runs a guest's WebSocket against frames of an upstream. @returns the end of its event */
async function talk(
  timeouts: TestNetOptions["timeouts"],
  serve: (upstream: RawClient) => Promise<unknown>,
  run: (guest: RawClient) => Promise<unknown>,
): Promise<{ error?: string; response: NonNullable<HttpEvent["response"]> }> {
  const upstreams = new RawUpstreams();
  await using net = await TestNet.open({ target: upstreams.target, timeouts });
  const { upstream, guest } = await upstreams.pair(net, HOST, async (client) => void await serve(client));
  await run(guest);
  guest.close();
  await net.idle();
  upstream.close();
  return net.gate.entries[0].outcome as never;
}

Deno.test("the event of a WebSocket has the bytes that the upstream sent, with the heads of frames", async (t) => {
  const cases: [name: string, frames: Uint8Array[], bytes: number][] = [
    ["no frame", [], 0],
    ["a close frame", [frameBytes({ opcode: 8, payload: CLOSE_1000 })], 4],
    ["two messages", [frameBytes({ payload: "{}" }), frameBytes({ payload: "x".repeat(200) })], 4 + 204],
  ];
  for (const [name, frames, bytes] of cases) {
    await t.step(name, async () => {
      const { error, response } = await talk({}, async (upstream) => {
        for (const frame of frames) await upstream.send(frame);
      }, (guest) => guest.rest());
      assertEquals([error, response.status, response.bytes], [undefined, 101, bytes]);
      assertEquals(response.body, { ...NO_HTTP_BODY, size: bytes, truncated: bytes > 0 });
    });
  }
});

Deno.test("a guest that goes away behind its close frame ends the connection of the upstream at once", async () => {
  let seen = "";
  await talk({ close: NEVER_MS, relay: NEVER_MS }, async (upstream) => {
    seen = (await readFrame(upstream)).payload;
    await upstream.rest();
  }, async (guest) => {
    await guest.send(guestFrame({ opcode: 8, payload: CLOSE_1000 }));
    guest.close();
  });
  assertEquals(seen, "\x03\xe8");
});

Deno.test("a side that goes on sending gets no more than the time of a closing handshake", async () => {
  await talk({ close: 100, relay: NEVER_MS }, async (upstream) => {
    while (true) {
      await upstream.send(frameBytes({ payload: "{}" }));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }, async (guest) => {
    await guest.send(guestFrame({ opcode: 8, payload: CLOSE_1000 }));
    await guest.rest();
  });
});
