/**
 * WebSockets through the proxy: closing, idle time, people who are asked, and credentials that are revoked.
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { BufferBudget } from "../../../lib/network/exchange/body_buffer.ts";
import { MessageBuffer } from "../../../lib/network/exchange/socket.ts";
import { BUFFERED_TOTAL_MAX, PINGS_MAX } from "../../../lib/network/limit.ts";
import {
  formatClose,
  formatFrameHead,
  OPCODE,
  parseClose,
  parseFrameHead,
} from "../../../lib/network/websocket/frame.ts";
import { SocketFault } from "../../../lib/network/websocket/fault.ts";
import { PingTable } from "../../../lib/network/websocket/relay.ts";
import { ModelReader } from "../../../lib/network/model/mod.ts";
import { added, ALL, world } from "../../helper/credential.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import type { RawClient } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";
import {
  frameBytes,
  guestFrame,
  openRaw,
  rawSocketUpstream,
  readClose,
  readFrame,
  readMessage,
  upgradeHead,
} from "../../helper/websocket.ts";

const HOST = "api.openai.com";
const ASK = `[profiles.rules.ask]\nname = "ask"\naction = "ask"\nmatch = 'model.request.model == "gpt-4o"'\n`;
const CREATE = '{"type":"response.create","model":"gpt-4o","input":"hi"}';
const CLOSE_1000 = new Uint8Array([3, 232]);

/** Runs a guest's WebSocket against frames of an upstream. */
async function talk(
  options: TestNetOptions,
  serve: (upstream: RawClient) => Promise<void>,
  run: (guest: RawClient, net: TestNet) => Promise<void>,
): Promise<void> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ models: new ModelReader(), target: () => target, ...options });
  const upstream = rawSocketUpstream(await net.leaf(HOST), serve);
  target = upstream.target;
  const guest = await openRaw(net, HOST, "/v1/responses");
  try {
    await run(guest, net);
  } finally {
    guest.close();
    upstream.close();
    await net.idle();
  }
}

Deno.test("heads of frames are written as they are read, at every boundary of their length", () => {
  for (const length of [0, 1, 125, 126, 65_535, 65_536, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
    for (const mask of [undefined, Uint8Array.from([1, 2, 3, 4])]) {
      const head = formatFrameHead(OPCODE.binary, length % 2 === 0, length, mask);
      const side = mask ? "guest" : "upstream";
      const expected = {
        opcode: 2,
        final: length % 2 === 0,
        length,
        size: head.length,
        ...(mask && { mask }),
      };
      assertEquals(parseFrameHead(head, side), expected);
      for (let cut = 0; cut < head.length; cut++) {
        assertEquals(parseFrameHead(head.subarray(0, cut), side), undefined);
      }
    }
  }
  assertThrows(
    () => parseFrameHead(Uint8Array.from([0x82, 127, 0, 32, 0, 0, 0, 0, 0, 0]), "upstream"),
    SocketFault,
  );
});

Deno.test("close codes: those that may be sent, with a reason that fits", () => {
  const payload = (code: number, reason = "") =>
    Uint8Array.from([code >> 8, code & 255, ...new TextEncoder().encode(reason)]);
  for (const code of [1000, 1003, 1007, 1014, 3000, 4999]) {
    assertEquals(parseClose(payload(code, "ü")), { code, reason: new TextEncoder().encode("ü") });
    assertEquals(formatClose(code, new TextEncoder().encode("ü")), payload(code, "ü"));
  }
  for (const code of [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535]) {
    assertThrows(() => parseClose(payload(code)), SocketFault);
  }
  assertEquals(parseClose(new Uint8Array()), undefined);
  assertThrows(() => parseClose(Uint8Array.from([3, 232, 0xff])), SocketFault, "UTF-8");
  assertEquals(formatClose(1000, new Uint8Array(123)).length, 125);
  assertEquals(formatClose(1000, new Uint8Array(124)).length, 2);
});

Deno.test("pings: the answer brings the payload back once, and old ones are forgotten", () => {
  const table = new PingTable();
  const sent = Array.from({ length: PINGS_MAX + 1 }, (_, at) => table.send(Uint8Array.from([at])));
  assertEquals(table.receive(sent[0]), undefined);
  assertEquals(table.receive(sent[5]), Uint8Array.from([5]));
  assertEquals(table.receive(sent[5]), undefined);
  assertEquals(table.receive(Uint8Array.from([1])), undefined);
  assertEquals(new PingTable().receive(sent[1]), undefined);
});

Deno.test("either side closes: its code and reason arrive, and so do messages before the answer", async (t) => {
  await t.step("the guest", () =>
    talk({}, async (upstream) => {
      assertEquals((await readFrame(upstream)).payload, "\x03\xe8bye");
      await upstream.send(frameBytes({ payload: '{"type":"late"}' }));
      await upstream.send(frameBytes({ opcode: 8, payload: CLOSE_1000 }));
    }, async (guest, net) => {
      await guest.send(guestFrame({ opcode: 8, payload: new Uint8Array([...CLOSE_1000, 98, 121, 101]) }));
      assertEquals(await readMessage(guest), '{"type":"late"}');
      assertEquals(await readClose(guest), 1000);
      assertEquals(await guest.closed(), true);
      await net.idle();
      assertEquals(net.gate.entries[0].outcome!.error, undefined);
    }));
  await t.step("the upstream, without a code", () =>
    talk({}, async (upstream) => {
      await upstream.send(frameBytes({ opcode: 8 }));
      assertEquals((await readFrame(upstream)).opcode, 8);
    }, async (guest) => {
      assertEquals(await readClose(guest), 1005);
      await guest.send(guestFrame({ opcode: 8 }));
      assertEquals(await guest.closed(), true);
    }));
  await t.step(
    "the upstream, without a close frame",
    () =>
      talk({}, async (upstream) => void await upstream.send(frameBytes({ payload: "{}" })), async (guest) => {
        assertEquals(await readMessage(guest), "{}");
        assertEquals(await guest.closed(), true);
      }),
  );
  await t.step(
    "the upstream, within a frame",
    () =>
      talk(
        {},
        async (upstream) => void await upstream.send(frameBytes({ payload: "{}" }).subarray(0, 3)),
        async (guest, net) => {
          assertEquals(await guest.closed(), true);
          guest.close();
          await net.idle();
          assertStringIncludes(
            net.gate.entries[0].outcome!.error!,
            "the upstream closed the connection within a frame",
          );
        },
      ),
  );
});

Deno.test("a side that does not answer a close frame, or is idle, is given up", async (t) => {
  await t.step(
    "no answer",
    () =>
      talk({ timeouts: { close: 100 } }, async (upstream) => void await upstream.rest(), async (guest) => {
        await guest.send(guestFrame({ opcode: 8, payload: CLOSE_1000 }));
        assertEquals(await guest.closed(), true);
      }),
  );
  await t.step(
    "idle",
    () =>
      talk(
        { timeouts: { relay: 100, close: 100 } },
        async (upstream) => void await upstream.rest(),
        async (guest, net) => {
          assertEquals(await guest.closed(), true);
          guest.close();
          await net.idle();
          assertStringIncludes(net.gate.entries[0].outcome!.error!, "was idle for too long");
        },
      ),
  );
});

Deno.test("messages to models are held within the budget of the VM, whatever they are cut into", async (t) => {
  const sum = (bytes: number[]) => bytes.reduce((total, each) => total + each, 0);
  const take = (buffer: MessageBuffer, sizes: number[]) =>
    sizes.map((size) => buffer.add({ bytes: new Uint8Array(size), isLast: false })?.length);
  await t.step("a message of single bytes needs no more than twice its length", () => {
    const budget = new BufferBudget();
    const buffer = new MessageBuffer(budget, 1 << 20);
    take(buffer, Array(100_000).fill(1));
    assertEquals(budget.bytes <= 200_000, true, `${budget.bytes}`);
    buffer.release();
    assertEquals(budget.bytes, 0);
  });
  await t.step("one that is too long is dropped, and the next one is held again", () => {
    const budget = new BufferBudget();
    const buffer = new MessageBuffer(budget, 10_000);
    assertEquals(take(buffer, [9_999, 1, 1, 1]), [9_999, 10_000, undefined, undefined]);
    assertEquals(budget.bytes, 0);
    buffer.release();
    assertEquals(take(buffer, [5]), [5]);
  });
  await t.step("the budget is of all together", () => {
    const budget = new BufferBudget();
    const buffers = Array.from({ length: 20 }, () => new MessageBuffer(budget, 8 << 20));
    const held = buffers.map((buffer) => take(buffer, [8 << 20])[0] ?? 0);
    assertEquals([sum(held), budget.bytes], [BUFFERED_TOTAL_MAX, BUFFERED_TOTAL_MAX]);
  });
  await t.step(
    "a guest that sends more is told so",
    () =>
      talk({}, async (upstream) => assertEquals(await readClose(upstream), 1009), async (guest) => {
        await guest.send(guestFrame({ fin: false, payload: new Uint8Array(8 << 20).fill(97) }));
        await guest.send(guestFrame({ opcode: 0, payload: "a" }));
        assertEquals(await readClose(guest), 1009);
      }),
  );
});

Deno.test("a person is asked for a model call: the message waits, and messages behind it", async (t) => {
  const echo = async (upstream: RawClient) => {
    for (let text = await readMessage(upstream);; text = await readMessage(upstream)) {
      await upstream.send(frameBytes({ payload: `${JSON.parse(text).type}` }));
    }
  };
  const asked = async (net: TestNet) => {
    await eventually("a person is asked", () => net.gate.asks.pending().length === 1);
    return net.gate.asks.pending()[0].ask_id;
  };
  await t.step("allowed", () =>
    talk({ rules: ASK }, echo, async (guest, net) => {
      await guest.send(guestFrame({ payload: CREATE }));
      await guest.send(guestFrame({ payload: '{"type":"response.cancel"}' }));
      net.gate.asks.resolve(await asked(net), { decision: "allow", scope: "once" });
      assertEquals([await readMessage(guest), await readMessage(guest)], [
        "response.create",
        "response.cancel",
      ]);
    }));
  await t.step("the guest goes away", () =>
    talk({ rules: ASK }, echo, async (guest, net) => {
      await guest.send(guestFrame({ payload: CREATE }));
      await asked(net);
      guest.close();
      await net.idle();
      assertEquals(net.gate.asks.pending().length, 0);
      const [, call] = net.gate.entries;
      assertEquals([call.event.model!.request.model, call.decision!.decision], ["gpt-4o", "block"]);
    }));
});

Deno.test(
  "revoking a credential ends the WebSocket that it opened",
  world(added, async ({ open, refs, store }) => {
    let target = { hostname: "", port: 0 };
    const broker = await open(ALL);
    await using net = await TestNet.open({ target: () => target, broker, models: new ModelReader() });
    const upstream = rawSocketUpstream(await net.leaf(HOST), async (client) => void await client.rest());
    target = upstream.target;
    const guest = await net.tls(HOST);
    const { status } = await guest.ask(
      upgradeHead(HOST, "/v1/realtime?model=gpt-realtime", `Authorization: Bearer ${refs.openai}\r\n`),
    );
    assertEquals(status, 101);
    await store.revoke(refs.openai);
    await broker.refresh();
    assertEquals(await guest.closed(), true);
    guest.close();
    upstream.close();
    await net.idle();
    await eventually("the upstream is closed", () => net.proxy.size.upstreams === 0);
  }),
);
