import { assertEquals } from "@std/assert";
import { DnsService } from "../../../../lib/network/dns/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { ask, read, records, TestResolver } from "../../../helper/resolver.ts";

const BY = { proto: "udp" as const, process_name: "curl" };

Deno.test("a question that a person takes long to answer is referred to TCP, where it is held", async () => {
  const rules = `
[profiles.rules.ask]
name = "ask"
action = "ask"
match = 'dns.request.qname == "a.test"'
`;
  const resolver = await TestResolver.start(
    records({ name: "a.test", type: "A", ttl: 300, data: "8.8.4.4" }),
  );
  const gate = new TestGate(rules);
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint] });
  try {
    const referral = await dns.answer(ask("a.test"), BY);
    const { id, rcode, data, flag_tc } = read(referral);
    assertEquals([id, rcode, data, flag_tc], [4242, "NOERROR", [], true]);
    const held = dns.answer(ask("a.test"), { ...BY, proto: "tcp" });
    const late = await Promise.race([held, new Promise((resolve) => setTimeout(resolve, 1000, "held"))]);
    assertEquals([late, gate.asks.pending().length], ["held", 1]);
    gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
    assertEquals(read(await held).data, ["8.8.4.4"]);
    assertEquals(gate.entries.length, 1, "one question, one event");
  } finally {
    resolver.close();
  }
});
