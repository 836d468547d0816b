/** Responses whose client goes away while they are relayed. */
import { assertEquals, assertRejects } from "@std/assert";
import { ClientLost, ConnectionLost } from "../../../lib/net/fault.ts";
import { WHOLE_RESPONSE_MAX } from "../../../lib/net/limit.ts";
import { WholeBody } from "../../../lib/net/message/body.ts";
import { httpDraft, NO_HTTP_BODY } from "../../../lib/net/exchange/draft.ts";
import type { Outlet } from "../../../lib/net/exchange/outlet.ts";
import { ResponseRelay } from "../../../lib/net/exchange/response_relay.ts";
import { world } from "../../helper/credential.ts";
import { TestGate } from "../../helper/gate.ts";

const DRAFT = httpDraft({ actor: "vm" }, {
  ...{ method: "GET", scheme: "https", host: "api.example.com", port: 443, target: "/" },
  ...{ headers: [], bytes: 0, body: NO_HTTP_BODY },
});
const lose = () => Promise.reject(new ClientLost(new ConnectionLost("closed the connection")));
const GONE: Partial<Outlet> = { sendWhole: lose, begin: () => {}, flush: lose, write: lose, cut: () => {} };

for (
  const [what, length, ends] of [
    ["a short response", 5, ["done", "abort"]],
    ["a long response", WHOLE_RESPONSE_MAX + 1, ["abort"]],
  ] as const
) {
  Deno.test(
    `${what} whose client is gone ends its event with that error, and its exchange`,
    world([], async ({ open }) => {
      const gate = new TestGate();
      const calls: string[] = [];
      const relay = new ResponseRelay({
        passage: await gate.decide(DRAFT),
        broker: await open(),
        outlet: GONE as Outlet,
        place: { scheme: "https", host: "api.example.com", port: 443, path: "/", direction: "response" },
        rulesRead: false,
        record: () => {},
      });
      const response = { status: 200, headers: [], body: new WholeBody(new Uint8Array(length).fill(97)) };
      await assertRejects(() =>
        relay.relay({
          response,
          exchange: {
            response: Promise.resolve(response),
            hasResponded: true,
            refused: false,
            done: () => calls.push("done"),
            abort: () => calls.push("abort"),
          },
        }), ClientLost);
      const [{ outcome }] = gate.entries;
      assertEquals([outcome?.error, (outcome?.response as { bytes: number }).bytes], [
        "the client closed the connection",
        length,
      ]);
      assertEquals(calls as readonly string[], ends);
    }),
  );
}
