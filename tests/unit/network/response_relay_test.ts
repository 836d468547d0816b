/** Responses whose client goes away while they are relayed. */
import { assertEquals, assertInstanceOf } from "@std/assert";
import { ClientLost, ConnectionLost } from "../../../lib/network/fault.ts";
import { WHOLE_RESPONSE_MAX } from "../../../lib/network/limit.ts";
import { NO_BODY, WholeBody } from "../../../lib/network/message/body.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { httpDraft, NO_HTTP_BODY } from "../../../lib/network/exchange/draft.ts";
import type { Outlet } from "../../../lib/network/exchange/context.ts";
import { ResponseRelay } from "../../../lib/network/exchange/response_relay.ts";
import type { SocketExchange } from "../../../lib/network/exchange/socket.ts";
import type { CredentialPort } from "../../../lib/network/interface/mod.ts";
import type { UpstreamResponse } from "../../../lib/network/upstream/upstream.ts";
import { world } from "../../helper/credential.ts";
import { TestGate } from "../../helper/gate.ts";

const DRAFT = httpDraft({ actor: "vm" }, {
  ...{ method: "GET", scheme: "https", host: "api.example.com", port: 443, target: "/" },
  ...{ headers: [], bytes: 0, body: NO_HTTP_BODY },
});
const lose = () => Promise.reject(new ClientLost(new ConnectionLost("closed the connection")));
const GONE: Partial<Outlet> = {
  sendWhole: lose,
  begin: () => {},
  flush: lose,
  write: lose,
  cut: () => {},
  upgrade: lose,
};

/** Relays a response to a client that is gone. @returns what became of its event and of its exchange */
async function relay(broker: CredentialPort, response: Partial<UpstreamResponse>) {
  const gate = new TestGate();
  const calls: string[] = [];
  const relay = new ResponseRelay({
    passage: await gate.decide(DRAFT),
    broker,
    outlet: GONE as Outlet,
    socket: {
      fields: (headers: readonly Header[]) => headers,
      messages: () => Promise.resolve({}),
    } as unknown as SocketExchange,
    place: { scheme: "https", host: "api.example.com", port: 443, path: "/", direction: "response" },
    rulesRead: false,
    record: () => {},
    linger: () => {},
  });
  const complete = { status: 200, headers: [], body: NO_BODY, ...response };
  const exchange = {
    response: Promise.resolve(complete),
    hasResponded: true,
    refused: false,
    done: () => calls.push("done"),
    abort: () => calls.push("abort"),
  };
  const error = await relay.relay({ response: complete, exchange }).catch((error) => error);
  const [{ outcome }] = gate.entries;
  const { bytes } = outcome!.response as { bytes: number };
  return { error, recorded: [outcome!.error, bytes], calls };
}

Deno.test(
  "a response whose client is gone ends its event with that error, and its exchange",
  world([], async ({ open }) => {
    const broker = await open();
    for (const [length, ends] of [[5, ["done", "abort"]], [WHOLE_RESPONSE_MAX + 1, ["abort"]]] as const) {
      const body = new WholeBody(new Uint8Array(length).fill(97));
      const { error, recorded, calls } = await relay(broker, { body });
      assertInstanceOf(error, ClientLost);
      assertEquals([recorded, calls], [["the client closed the connection", length], [...ends]]);
    }
    const upgraded = {} as UpstreamResponse["upgraded"];
    const { error, recorded, calls } = await relay(broker, { status: 101, upgraded });
    assertEquals([error, recorded, calls], [undefined, ["the client closed the connection", 0], ["abort"]]);
  }),
);
