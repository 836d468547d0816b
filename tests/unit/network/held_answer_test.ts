/**
 * A client whose request waits for a person is answered before it gives up, and
 * its next try passes after a yes.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";
import { ask, read, records, TestResolver } from "../../helper/resolver.ts";
import { eventually } from "../../helper/sbx.ts";

const HOST = "api.example.com";
const RULES = `[profiles.rules.ask]
name = "ask"
action = "ask"
reason = "someone looks first"
match = 'http.request.host == "${HOST}" || dns.request.qname == "${HOST}"'
[profiles.rules.no]
name = "no"
action = "block"
match = 'http.request.host == "no.example.com"'
`;
const request = (accept: string, host = HOST) =>
  `GET /x HTTP/1.1\r\nHost: ${host}\r\nAccept: ${accept}\r\n\r\n`;

Deno.test("a held request is answered with its rule, its ask and the way to ask, and passes after a yes", async () => {
  const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await using net = await TestNet.open({
    rules: RULES,
    timeouts: { held: 50 },
    target: () => upstream.target,
  });
  const client = await net.client();
  await client.send(request("*/*"));
  const answer = await client.answer();
  const [pending] = net.gate.asks.pending();
  assertEquals([answer.status, answer.headers.get("retry-after")], [503, "10"]);
  const { event_id, hint, ...refusal } = JSON.parse(answer.body);
  assertEquals(refusal, {
    decision: "ask",
    ask_id: pending.ask_id,
    retry_after: 10,
    rule: { id: "ask", reason: "someone looks first" },
    ask: "sbx-ask HOST --why TEXT",
  });
  assertEquals(pending.event_id, event_id);
  assertStringIncludes(hint, "try again");
  assertEquals(upstream.conns.length, 0);

  net.gate.asks.resolve(pending.ask_id, { decision: "allow", scope: "once" });
  await client.send(request("*/*"));
  assertEquals((await client.answer()).status, 200);
  client.close();
  upstream.close();
});

Deno.test("a client of pages gets text; a block says how to ask", async () => {
  await using net = await TestNet.open({ rules: RULES, timeouts: { held: 50 } });
  const client = await net.client();
  await client.send(request("text/html, */*;q=0.1"));
  const held = await client.answer();
  assertEquals([held.status, held.headers.get("content-type")], [503, "text/plain; charset=utf-8"]);
  assertMatch(
    held.body,
    /^sbx: waits for approval by policy: someone looks first \(rule "ask"\); .*ask-.*sbx-ask HOST --why TEXT\n$/,
  );
  await client.send(request("text/html", "no.example.com"));
  const blocked = await client.answer();
  assertEquals(blocked.status, 403);
  assertMatch(
    blocked.body,
    /^sbx: blocked by policy: no \(rule "no"\); ask your user: sbx-ask HOST --why TEXT\n$/,
  );
  client.close();
});

Deno.test("a held lookup is SERVFAIL with its ask, and the next one passes after a yes", async () => {
  const resolver = await TestResolver.start(records({ name: HOST, type: "A", ttl: 300, data: "8.8.4.4" }));
  const gate = new TestGate(RULES);
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint], heldMs: 50 });
  const by = { proto: "tcp" as const, process_name: "curl" };
  const held = read(await dns.answer(ask(HOST), by));
  assertEquals([held.rcode, held.error.code], ["SERVFAIL", 15]);
  const [pending] = gate.asks.pending();
  assertStringIncludes(held.error.text, 'waits for approval by policy: someone looks first (rule "ask")');
  assertStringIncludes(held.error.text, pending.ask_id);
  assertEquals(resolver.seen.length, 0);
  gate.asks.resolve(pending.ask_id, { decision: "allow", scope: "once" });
  assertEquals(read(await dns.answer(ask(HOST, "A", { id: 7 }), by)).data, ["8.8.4.4"]);

  const denied = dns.answer(ask(HOST, "A", { id: 8 }), by);
  await eventually("it is asked", () => gate.asks.pending().length === 1);
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "deny", scope: "session" });
  const no = read(await denied);
  assertEquals(no.rcode, "NXDOMAIN");
  assert(no.error.text.includes("your user denied it"));
  resolver.close();
});
