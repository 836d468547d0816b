/** The messages of a WebSocket in its event, where the VM records them. */
import { assertEquals } from "@std/assert";
import type { HttpEvent } from "../../../lib/event/mod.ts";
import { SOCKET_MESSAGE_MAX, SOCKET_MESSAGES_MAX, SOCKET_RECORD_BYTES } from "../../../lib/network/limit.ts";
import { added, KEY, world } from "../../helper/credential.ts";
import { httpResponse } from "../../helper/gate.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import type { RawClient } from "../../helper/net_client.ts";
import {
  frameBytes,
  guestFrame,
  openRaw,
  rawSocketUpstream,
  readClose,
  readFrame,
  readMessage,
} from "../../helper/websocket.ts";

const HOST = "mcp.example.com";
const CLOSE_1000 = new Uint8Array([3, 232]);

type Response = NonNullable<HttpEvent["response"]>;

/** The answer of a WebSocket in the record, once its two sides have done their part and closed it. */
async function record(
  options: TestNetOptions,
  guestSide: (guest: RawClient) => Promise<void>,
  upstreamSide: (upstream: RawClient) => Promise<void>,
): Promise<Response> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ recordsMessages: true, target: () => target, ...options });
  const upstream = rawSocketUpstream(await net.leaf(HOST), async (client) => {
    await upstreamSide(client);
    await readClose(client);
    await client.send(frameBytes({ opcode: 8, payload: CLOSE_1000 }));
  });
  target = upstream.target;
  const guest = await openRaw(net, HOST, "/socket");
  await guestSide(guest);
  await guest.send(guestFrame({ opcode: 8, payload: CLOSE_1000 }));
  await readClose(guest);
  guest.close();
  upstream.close();
  await net.idle();
  return httpResponse(net.gate.entries.find(({ outcome }) => outcome !== undefined)!);
}

/** Messages without the times at which they ended. */
const seen = ({ messages }: Response) => messages?.map(({ at_ms: _, ...message }) => message);
const text = (from: string, said: string, size = said.length) => ({
  from,
  size,
  state: "text",
  text: said,
  truncated: false,
});

Deno.test("messages of both sides are in the event, in their order, whole and in fragments", async () => {
  const response = await record({}, async (guest) => {
    await guest.send(guestFrame({ fin: false, payload: "hel" }));
    await guest.send(guestFrame({ opcode: 0, payload: "lo" }));
    assertEquals(await readMessage(guest), "welcome");
    await guest.send(guestFrame({ opcode: 2, payload: new Uint8Array([0, 1, 2]) }));
    await guest.send(guestFrame({ payload: "" }));
  }, async (upstream) => {
    assertEquals(await readMessage(upstream), "hello");
    await upstream.send(frameBytes({ payload: "welcome" }));
  });
  assertEquals(seen(response), [
    text("guest", "hello"),
    text("upstream", "welcome"),
    { from: "guest", size: 3, state: "binary", truncated: false },
    { from: "guest", size: 0, state: "missing", truncated: false },
  ]);
  assertEquals(
    response.messages!.every(({ at_ms }, at, all) => at === 0 || at_ms >= all[at - 1].at_ms),
    true,
  );
  assertEquals(response.messages_missing, undefined);
});

Deno.test("without the choice the event has none", async () => {
  const response = await record({ recordsMessages: false }, async (guest) => {
    await guest.send(guestFrame({ payload: "hello" }));
  }, async (upstream) => void await readMessage(upstream));
  assertEquals(response.messages, undefined);
});

Deno.test(
  "a secret is a ref in the record, in what the guest sends and in what the upstream repeats",
  world(added, async ({ open, refs }) => {
    const response = await record({ broker: await open(["mcp"]) }, async (guest) => {
      await guest.send(guestFrame({ payload: `first ${KEY.mcp}` }));
      await readMessage(guest);
    }, async (upstream) => {
      await upstream.send(frameBytes({ payload: `again ${await readMessage(upstream)}` }));
    });
    assertEquals(JSON.stringify(response).includes(KEY.mcp), false);
    const [sent, repeated] = seen(response)!;
    assertEquals([sent.text, repeated.text!.includes("credential-withheld")], [`first ${refs.mcp}`, true]);
  }),
);

Deno.test("a long message is cut, and what has no room is counted", async () => {
  const long = "é".repeat(SOCKET_MESSAGE_MAX);
  const fits = SOCKET_RECORD_BYTES / SOCKET_MESSAGE_MAX;
  const response = await record({}, async (guest) => {
    for (let count = 0; count < fits + 2; count++) await guest.send(guestFrame({ payload: long }));
  }, async (upstream) => {
    for (let count = 0; count < fits + 2; count++) await readMessage(upstream);
  });
  assertEquals(response.messages!.length, fits);
  assertEquals(response.messages_missing, 2);
  const [{ size, truncated, text }] = response.messages!;
  assertEquals([size, truncated, text], [2 * long.length, true, long.slice(0, SOCKET_MESSAGE_MAX / 2)]);
});

Deno.test("short messages have a limit too", async () => {
  const sent = SOCKET_MESSAGES_MAX + 3;
  const response = await record({}, async (guest) => {
    for (let count = 0; count < sent; count++) await guest.send(guestFrame({ payload: `${count}` }));
  }, async (upstream) => {
    for (let count = 0; count < sent; count++) await readMessage(upstream);
  });
  assertEquals(response.messages!.at(-1)!.text, `${SOCKET_MESSAGES_MAX - 1}`);
  assertEquals(response.messages_missing, 3);
});

Deno.test("a message whose end never came is in the record, cut", async () => {
  const response = await record({}, async (guest) => {
    await guest.send(guestFrame({ fin: false, payload: "half a " }));
    await guest.send(guestFrame({ opcode: 0, fin: false, payload: "message" }));
    assertEquals(await readMessage(guest), "got it");
  }, async (upstream) => {
    await readFrame(upstream);
    await readFrame(upstream);
    await upstream.send(frameBytes({ payload: "got it" }));
    await upstream.send(frameBytes({ opcode: 2, fin: false, payload: new Uint8Array([0, 1]) }));
  });
  assertEquals(seen(response), [
    text("upstream", "got it"),
    { ...text("guest", "half a message"), truncated: true },
    { from: "upstream", size: 2, state: "binary", truncated: true },
  ]);
});
