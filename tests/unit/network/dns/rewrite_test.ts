/** Questions that a rule rewrites. */
import { assertEquals } from "@std/assert";
import { DnsService, Overrides } from "../../../../lib/network/dns/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { ask, read, records, TestResolver } from "../../../helper/resolver.ts";

const rewrite = (path: string, value: string) => `
[profiles.rules.other]
name = "other"
action = "rewrite"
match = 'dns.request.qname == "a.test"'
rewrite = [{ op = "set", path = "dns.request.${path}", value = "${value}" }]
`;

for (
  const [path, value, question] of [
    ["qname", "mirror.test", ["mirror.test", "TXT"]],
    ["qtype", "A", ["a.test", "A"]],
  ] as const
) {
  Deno.test(`a question whose ${path} a rule changed is asked as changed`, async () => {
    const resolver = await TestResolver.start(records());
    try {
      const dns = new DnsService({
        gate: new TestGate(rewrite(path, value)),
        resolvers: [resolver.endpoint],
        overrides: Overrides.parse([]),
        tryMs: 30_000,
      });
      const answer = read(await dns.answer(ask("a.test", "TXT"), { proto: "udp", process_name: "curl" }));
      assertEquals([answer.questions[0].name, answer.questions[0].type], ["a.test", "TXT"]);
      assertEquals(resolver.seen.map(({ name, type }) => [name, type]), [question]);
    } finally {
      resolver.close();
    }
  });
}
