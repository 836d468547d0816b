/** Model calls on WebSockets, and what ends the WebSocket: limits, faults, and what its event says then. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { SOCKET_CALLS_MAX } from "../../../lib/network/limit.ts";
import { ModelReader } from "../../../lib/network/model/mod.ts";
import { added, ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import type { RawClient } from "../../helper/net_client.ts";
import {
  frameBytes,
  guestFrame,
  openRaw,
  RawUpstreams,
  readClose,
  readFrame,
  readMessage,
} from "../../helper/websocket.ts";

const HOST = "api.openai.com";

/** Runs a guest's WebSocket to an API against frames of an upstream. @returns the record */
async function talk(
  path: string,
  serve: (upstream: RawClient) => Promise<unknown>,
  run: (guest: RawClient) => Promise<unknown>,
  options: TestNetOptions = {},
  host = HOST,
) {
  const upstreams = new RawUpstreams();
  await using net = await TestNet.open({ models: new ModelReader(), target: upstreams.target, ...options });
  const upstream = await upstreams.open(net, host, async (client) => void await serve(client));
  const guest = await openRaw(net, host, path);
  await run(guest);
  guest.close();
  await net.idle();
  upstream.close();
  const [{ outcome }, ...others] = net.gate.entries;
  return { error: outcome?.error, outcome, others };
}

const create = (input: string) =>
  guestFrame({ payload: JSON.stringify({ type: "response.create", model: "gpt-4o", input }) });
const created = (at: number) =>
  frameBytes({ payload: JSON.stringify({ type: "response.created", response: { id: `resp_${at}` } }) });

Deno.test("calls that wait for their responses have a limit, whoever makes them", async (t) => {
  const text = `more than ${SOCKET_CALLS_MAX} model calls wait for their responses`;
  await t.step("the guest", async () => {
    let received = 0;
    const { error, others } = await talk("/v1/responses", async (upstream) => {
      for (; (await readFrame(upstream)).opcode !== 8; received++);
    }, async (guest) => {
      for (let at = 0; at <= SOCKET_CALLS_MAX; at++) await guest.send(create(`${at}`));
      assertEquals(await readClose(guest), 1008);
    });
    assertEquals([error, received, others.length], [text, SOCKET_CALLS_MAX, SOCKET_CALLS_MAX]);
    assertStringIncludes(others[0].outcome!.error!, "before the response was complete");
  });
  await t.step("the upstream", async () => {
    const { error, others } = await talk("/v1/realtime?model=gpt-realtime", async (upstream) => {
      for (let at = 0; at <= SOCKET_CALLS_MAX; at++) await upstream.send(created(at));
      assertEquals(await readClose(upstream), 1008);
    }, async (guest) => assertEquals(await readClose(guest), 1008));
    assertEquals([error, others.length], [text, SOCKET_CALLS_MAX]);
    assertEquals(others.map(({ event }) => event.common.enforceability), others.map(() => "observe_only"));
  });
});

Deno.test("calls that have ended make room for others", async () => {
  const { error, others } = await talk("/v1/responses", async (upstream) => {
    for (let at = 0; (await readFrame(upstream)).opcode !== 8; at++) {
      const response = { id: `resp_${at}`, status: "completed", output: [], usage: {} };
      await upstream.send(frameBytes({ payload: JSON.stringify({ type: "response.completed", response }) }));
    }
    await upstream.send(frameBytes({ opcode: 8, payload: new Uint8Array([3, 232]) }));
  }, async (guest) => {
    for (let at = 0; at < SOCKET_CALLS_MAX + 10; at++) {
      await guest.send(create(`${at}`));
      await readMessage(guest);
    }
    await guest.send(guestFrame({ opcode: 8, payload: new Uint8Array([3, 232]) }));
    assertEquals(await readClose(guest), 1000);
  });
  assertEquals([error, others.length], [undefined, SOCKET_CALLS_MAX + 10]);
  assertEquals(others.filter(({ outcome }) => outcome!.error !== undefined), []);
});

Deno.test("a call whose rewrite cannot be sent is refused with an error of the API, and the WebSocket goes on", async () => {
  const rules =
    `[profiles.rules.change]\nname = "change"\naction = "rewrite"\nmatch = 'model.request.model == "gpt-4o"'\n` +
    `rewrite = [{ op = "replace", path = "model.request.body.text", pattern = "secret", value = "x" }]\n`;
  const { others } = await talk("/v1/responses", async (upstream) => {
    assertEquals(await readMessage(upstream), '{"type":"response.cancel"}');
    await upstream.send(frameBytes({ payload: '{"type":"done"}' }));
  }, async (guest) => {
    // Longer than an event holds.
    await guest.send(create("secret".repeat(20_000)));
    const { type, error } = JSON.parse(await readMessage(guest));
    assertEquals([type, error.code], ["error", "policy.rewrite.invalid"]);
    await guest.send(guestFrame({ payload: '{"type":"response.cancel"}' }));
    assertEquals(await readMessage(guest), '{"type":"done"}');
  }, { rules });
  assertStringIncludes(others[0].outcome!.error!, "cannot be rewritten");
});

Deno.test("frames that cannot be read safely end the WebSocket: both sides get the code, and the record names the side", async (t) => {
  const cases: [name: string, frame: Parameters<typeof frameBytes>[0], code: number, reason: string][] = [
    ["reserved bits", { rsv: 4, payload: "x" }, 1002, "reserved bits are set"],
    ["no UTF-8", { payload: new Uint8Array([0xff]) }, 1007, "text that is not UTF-8"],
    ["half a code", { opcode: 8, payload: "x" }, 1002, "half a close code"],
  ];
  for (const [name, frame, code, reason] of cases) {
    for (const side of ["client", "upstream"] as const) {
      await t.step(`${name} of the ${side}`, async () => {
        const { error, others } = await talk("/v1/responses", async (upstream) => {
          if (side === "upstream") await upstream.send(frameBytes(frame));
          assertEquals(await readClose(upstream), code);
        }, async (guest) => {
          if (side === "client") await guest.send(guestFrame(frame));
          assertEquals(await readClose(guest), code);
        });
        assertEquals(error, `the ${side} sent a WebSocket frame that cannot be read safely: ${reason}`);
        const refusals = others.map(({ decision }) => decision!.rule.id);
        assertEquals(refusals, side === "client" ? ["guard-malformed-websocket"] : []);
      });
    }
  }
});

Deno.test("a ping travels with a number, and its pong brings the payload back; others are dropped", async () => {
  await talk("/v1/responses", async (upstream) => {
    await upstream.send(frameBytes({ opcode: 10, payload: "unasked" }));
    const ping = await readFrame(upstream);
    assertEquals([ping.opcode, ping.payload], [9, "\0\0\0\0"]);
    await upstream.send(frameBytes({ opcode: 10, payload: ping.payload }));
    await upstream.send(frameBytes({ opcode: 9, payload: "from above" }));
    assertEquals(await readFrame(upstream), {
      fin: true,
      rsv: 0,
      opcode: 10,
      masked: true,
      payload: "from above",
    });
    await upstream.send(frameBytes({ payload: "{}" }));
  }, async (guest) => {
    await guest.send(guestFrame({ opcode: 9, payload: "secret" }));
    assertEquals(await readFrame(guest), { fin: true, rsv: 0, opcode: 10, masked: false, payload: "secret" });
    const ping = await readFrame(guest);
    assertEquals([ping.opcode, ping.payload.length], [9, 4]);
    await guest.send(guestFrame({ opcode: 10, payload: ping.payload }));
    assertEquals(await readMessage(guest), "{}");
  });
});

Deno.test(
  "a secret that messages of the upstream repeat is recorded once",
  world(added, async ({ open, refs }) => {
    const texts = [KEY.github, "none", KEY.github];
    const { others } = await talk(
      "/",
      async (upstream) => {
        for (const payload of texts) await upstream.send(frameBytes({ payload }));
        await upstream.rest();
      },
      async (guest) => {
        for (const text of [refs.github, "none", refs.github]) assertEquals(await readMessage(guest), text);
      },
      { broker: await open(ALL) },
      "chat.example.com",
    );
    const outcomes = others.map(({ event }) => event.credential!.substitution.outcome);
    assertEquals(outcomes, ["brokered"]);
  }),
);
