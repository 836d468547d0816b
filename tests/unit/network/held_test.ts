/**
 * A request that waits for a person outlasts every timeout of the network, with or without its whole body.
 */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";
import { SWEEP_MS } from "../../../lib/network/limit.ts";

const HOST = "api.example.com";
const RULES = `[profiles.rules.ask]
name = "ask"
action = "ask"
ask_timeout = 86400
match = 'http.request.host == "${HOST}"'
`;
/** Every timeout in `ms`, far below the wait. */
const SHORT = Object.fromEntries(
  ["head", "silence", "keepAlive", "body", "buffer", "response", "idle", "relay"].map((name) => [name, 100]),
);
const LINES = `POST /x HTTP/1.1\r\nHost: ${HOST}\r\n`;
/** More than is read before the decision. */
const LONG = 200 * 1024;

Deno.test("a request is held for its ask, however long", async () => {
  const requests: [name: string, text: string, rest: string][] = [
    ["without a body", `GET /x HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`, ""],
    ["with a body", `${LINES}Content-Length: 3\r\n\r\nabc`, ""],
    [
      "with a body that is read later",
      `${LINES}Transfer-Encoding: chunked\r\n\r\n${LONG.toString(16)}\r\n${"x".repeat(LONG)}\r\n`,
      "0\r\n\r\n",
    ],
  ];
  for (const [name, text, rest] of requests) {
    const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    await using net = await TestNet.open({ rules: RULES, timeouts: SHORT, target: () => upstream.target });
    const client = await net.client();
    await client.send(text);
    await eventually("it is asked", () => net.gate.asks.pending().length === 1);
    await new Promise((resolve) => setTimeout(resolve, 3 * SWEEP_MS));
    assertEquals(net.gate.asks.pending().length, 1, name);
    net.gate.asks.resolve(net.gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
    if (rest) await client.send(rest);
    assertEquals((await client.answer()).status, 200, name);
    client.close();
    upstream.close();
  }
});

Deno.test("a connection of another protocol is held for its ask", async () => {
  const upstream = fixedUpstream("");
  const rules = RULES.replace("'http.request.host", `'http.request.scheme == "tcp" && http.request.host`);
  await using net = await TestNet.open({
    rules: rules.replace(`"${HOST}"`, '"203.0.113.7"'),
    timeouts: SHORT,
    target: () => upstream.target,
  });
  const client = await net.client(9418);
  await client.send("\x01\x02hello");
  await eventually("it is asked", () => net.gate.asks.pending().length === 1);
  await new Promise((resolve) => setTimeout(resolve, 3 * SWEEP_MS));
  net.gate.asks.resolve(net.gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
  await eventually("it is connected", () => upstream.conns.length === 1);
  client.close();
  upstream.close();
});
