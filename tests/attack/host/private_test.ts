/** Rules on names or methods, behind which a guest reached the host's own network and metadata services. */
import { assertEquals } from "@std/assert";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { completeEvent, parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Rule } from "../../../lib/policy/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { ask, read, records, TestResolver } from "../../helper/resolver.ts";

const GUEST = { proto: "udp" as const, process_name: "curl" };
const NAME = "api.example.com";

const PRIVATE = [
  "169.254.169.254",
  "127.0.0.1",
  "10.0.0.1",
  "100.64.0.1",
  "0.0.0.0",
  "fd00:ec2::254",
  "::1",
  "::ffff:169.254.169.254",
  "64:ff9b::a9fe:a9fe",
  "2002:a9fe:a9fe::",
  // Azure's and IBM's services for their own machines.
  "168.63.129.16",
  "161.26.0.10",
  // This machine, at addresses that may be public.
  ...new Set(Deno.networkInterfaces().map(({ address }) => address)),
];

const rule = (match: string, action = "allow", id = "mine") =>
  `[profiles.rules.${id}]\naction = "${action}"\nmatch = '${match}'\n`;

const typeOf = (address: string) => address.includes(":") ? "AAAA" : "A";

/**
 * Answers a guest's question for {@linkcode NAME} with addresses.
 * @returns the addresses that the guest gets, and the rule
 */
async function answersOf(addresses: string[], rules: string): Promise<[answers: string[], rule: string]> {
  const type = typeOf(addresses[0]);
  const resolver = await TestResolver.start(
    records(...addresses.map((data) => ({ name: NAME, type, ttl: 60, data }))),
  );
  const gate = new TestGate(rules);
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint], tryMs: 30_000 });
  try {
    const { data } = read(await dns.answer(ask(NAME, type), GUEST));
    assertEquals(addresses.map((address) => dns.agrees(NAME, address)), addresses.map(() => data.length > 0));
    // The second answer comes from the cache.
    assertEquals(read(await dns.answer(ask(NAME, type, { id: 7 }), GUEST)).data, data);
    return [data as string[], gate.entries[0].decision!.rule.id];
  } finally {
    resolver.close();
  }
}

Deno.test("a name that a rule allows does not lead to a private address", async (t) => {
  const matches = [
    `dns.request.qname == "${NAME}"`,
    'common.event_type == "dns.query"',
    'dns.request.qname == "other.example.com" || has(dns.request)',
    '!dns.response.answers.exists(answer, answer == "9.9.9.9")',
    'dns.response.answers.size() > 0 || dns.request.qtype != "TXT"',
    'dns.request.qtype != "TXT" || dns.response.answers.exists(answer, in_cidr(answer, "0.0.0.0/0"))',
  ];
  for (const match of matches) {
    for (const address of PRIVATE) {
      await t.step(`${match}: ${address}`, async () => {
        assertEquals(await answersOf([address], rule(match)), [[], "block-private-dns"]);
      });
    }
  }
});

Deno.test("a rule on one private address covers no other one in the same answer", async () => {
  const match = 'dns.response.answers.exists(answer, in_cidr(answer, "10.0.0.0/8"))';
  assertEquals(await answersOf(["10.0.0.1", "10.2.0.1"], rule(match)), [
    ["10.0.0.1", "10.2.0.1"],
    "allow-dns",
  ]);
  assertEquals(await answersOf(["10.0.0.1", "169.254.169.254"], rule(match)), [[], "block-private-dns"]);
  const both = rule(`dns.request.qname == "${NAME}"`, "allow", "a") + rule(match, "allow", "b");
  assertEquals((await answersOf(["10.0.0.1"], both))[0], ["10.0.0.1"]);
});

Deno.test("the answer of a person to a name does not lead to a private address", async () => {
  const resolver = await TestResolver.start(records({ name: NAME, type: "A", ttl: 60, data: "10.0.0.1" }));
  const gate = new TestGate(rule(`dns.request.qname == "${NAME}"`, "ask"));
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint], tryMs: 30_000 });
  const answer = dns.answer(ask(NAME), GUEST);
  const [asked] = gate.asks.pending();
  gate.asks.resolve(asked.ask_id, { decision: "allow", scope: "once" });
  assertEquals(read(await answer).data, []);
  resolver.close();
});

Deno.test("rules that do not name a private address do not allow connections to it", async (t) => {
  const matches = [
    'http.request.method == "GET"',
    'http.request.host != "evil.example.com"',
    '!in_domain(http.request.host, "evil.example.com")',
    'http.request.url.startsWith("http://") || http.request.scheme == "tcp"',
    'http.request.host.matches("^[0-9a-f.:]+$") || http.request.port == 80',
  ];
  for (const match of matches) {
    for (const address of PRIVATE.filter((address) => !address.includes("ffff"))) {
      await t.step(`${match}: ${address}`, async () => {
        await using net = await TestNet.open({ rules: rule(match), timeouts: { connect: 1_000 } });
        const client = await net.client(80, address);
        const host = address.includes(":") ? `[${address}]` : address;
        const { status } = await client.ask(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
        client.close();
        assertEquals([status, net.gate.entries[0].decision?.rule.id], [403, "block-private-http"]);
      });
    }
  }
});

/** Decision of a profile's rules on a request to a host. */
function decide(rules: string, host: string): string {
  const parsed: Rule[] = parseRules(rules, "profile.toml");
  const url = `http://${host}/`;
  const request = {
    method: "GET",
    scheme: "http",
    host,
    port: 80,
    path: "/",
    query: "",
    url,
    headers: { host: [host] },
  };
  const event = {
    schema_version: 1,
    common: { event_type: "http.request" },
    http: { request },
  } as unknown as Event;
  const { decision } = compilePolicy(parsed).evaluate(event);
  return `${decision.decision} ${decision.rule.id}`;
}

Deno.test("a rule that names a private address allows it, and so does a profile without the built-in block", () => {
  const all = rule('http.request.method == "GET"');
  assertEquals(decide(rule('http.request.host == "10.0.0.1"'), "10.0.0.1"), "allow mine");
  assertEquals(decide(rule('in_cidr(http.request.host, "10.0.0.0/8")'), "10.0.0.1"), "allow mine");
  assertEquals(decide(rule('http.request.url.startsWith("http://10.0.0.1/")'), "10.0.0.1"), "allow mine");
  assertEquals(
    decide(rule('http.request.headers["host"].exists(host, host == "10.0.0.1")'), "10.0.0.1"),
    "allow mine",
  );
  assertEquals(decide(rule("is_private_host(http.request.host)"), "10.0.0.1"), "allow mine");
  assertEquals(decide(all, "localhost"), "block block-private-http");
  assertEquals(decide(rule('http.request.host == "localhost"'), "localhost"), "allow mine");
  const off = '[default.block-private-http]\naction = "block"\nmatch = "false"\nenabled = false\n';
  assertEquals(decide(all + off, "10.0.0.1"), "allow mine");
});

Deno.test("the remedy of a blocked answer allows that answer", () => {
  const event = completeEvent({
    schema_version: 1,
    common: { event_type: "dns.query" },
    dns: {
      request: { qname: NAME, qtype: "A", transport: "udp" },
      response: { rcode: "NOERROR", answers: ["www.example.com", "8.8.8.8", "10.0.0.1", "127.0.0.1"] },
    },
  });
  const { decision } = compilePolicy([]).evaluate(event);
  const match = decision.remedy!.match(/match = '(.*)'$/)![1];
  const allowed = compilePolicy(parseRules(rule(match), "profile.toml")).evaluate(event);
  assertEquals([decision.rule.id, allowed.decision.rule.id], ["block-private-dns", "mine"]);
});

Deno.test("an ask without an address stays an ask beside a rule that names the address", () => {
  const asks = rule('http.request.method == "GET"', "ask", "a").replace("match", "priority = 10\nmatch");
  const named = rule('http.request.host == "10.0.0.1"', "allow", "b");
  assertEquals(decide(asks, "10.0.0.1"), "block block-private-http");
  assertEquals(decide(asks + named, "10.0.0.1"), "ask a");
  assertEquals(decide(asks + named, "10.0.0.2"), "block block-private-http");
});

Deno.test("a private address that rules no longer allow is no address of its name", async () => {
  const match = 'dns.response.answers.exists(answer, answer == "10.0.0.1")';
  const resolver = await TestResolver.start(records({ name: NAME, type: "A", ttl: 60, data: "10.0.0.1" }));
  const gate = new TestGate(rule(match));
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint], tryMs: 30_000 });
  assertEquals(read(await dns.answer(ask(NAME), GUEST)).data, ["10.0.0.1"]);
  assertEquals([dns.agrees(NAME, "10.0.0.1"), dns.nameOf("10.0.0.1")], [true, NAME]);
  gate.use(compilePolicy([]), []);
  assertEquals([dns.agrees(NAME, "10.0.0.1"), dns.nameOf("10.0.0.1")], [false, undefined]);
  resolver.close();
});
