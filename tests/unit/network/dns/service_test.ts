import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { PENDING_MAX } from "../../../../lib/network/dns/limit.ts";
import { DnsService, Overrides } from "../../../../lib/network/dns/mod.ts";
import type { Gate, Outcome, Passage } from "../../../../lib/policy/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { ask, read, records, type Respond, TestResolver } from "../../../helper/resolver.ts";

const BY = { proto: "udp" as const, process_name: "curl" };
const A = (data: string, name = "a.test", ttl = 300) => ({ name, type: "A", ttl, data });

/** Runs with a service over a real resolver. */
async function withService(
  respond: Respond,
  run: (dns: DnsService, gate: TestGate, resolver: TestResolver) => Promise<void>,
  { rules, overrides, services }: {
    rules?: string;
    overrides?: string[];
    services?: { name: string; port: number }[];
  } = {},
): Promise<void> {
  const resolver = await TestResolver.start(respond);
  const gate = new TestGate(rules);
  const dns = new DnsService({
    gate,
    resolvers: [resolver.endpoint],
    overrides: Overrides.parse(overrides ?? [], services),
    tryMs: 30_000,
  });
  try {
    await run(dns, gate, resolver);
  } finally {
    resolver.close();
  }
}

Deno.test("a query is an event with its answer and its process, and the cache answers the next one", async () => {
  await withService(records(A("8.8.4.4"), A("9.9.9.9", "unasked.test")), async (dns, gate, resolver) => {
    const first = read(await dns.answer(ask("A.Test"), BY));
    assertEquals([first.id, first.rcode, first.data], [4242, "NOERROR", ["8.8.4.4"]]);
    assertEquals(first.questions[0].name, "A.Test", "the name keeps the client's case");
    const second = read(await dns.answer(ask("a.test", "A", { id: 7 }), { ...BY, proto: "tcp" }));
    assertEquals([second.id, second.data], [7, ["8.8.4.4"]]);
    assertEquals(resolver.seen.length, 1);
    const [{ event, outcome }, cached] = gate.entries;
    assertEquals(event.dns, { request: { qname: "a.test", qtype: "A", transport: "udp" } });
    assertEquals(event.common.process?.command, "curl");
    assertEquals(outcome?.response, { rcode: "NOERROR", answers: ["8.8.4.4"] });
    assertEquals(cached.event.dns?.response, { rcode: "NOERROR", answers: ["8.8.4.4"] });
    assertEquals(cached.event.dns?.request.transport, "tcp");
    assert(cached.outcome, "a question answered from the cache is finished too");
    assertEquals([dns.agrees("A.TEST.", "8.8.4.4"), dns.agrees("b.test", "8.8.4.4")], [true, false]);
    assertEquals([dns.nameOf("::ffff:8.8.4.4"), dns.nameOf("9.9.9.9")], ["a.test", undefined]);
  });
});

Deno.test("a block gives its reason, and the question does not leave the host", async () => {
  const rules = `
[profiles.rules.no-evil]
name = "no evil"
action = "block"
match = 'dns.request.qname.endsWith(".evil.test")'
reason = "exfiltration"
`;
  await withService(records(A("8.8.4.4")), async (dns, gate, resolver) => {
    const answer = read(await dns.answer(ask("secret.evil.test"), BY));
    assertEquals([answer.rcode, answer.data, answer.error.code], ["NXDOMAIN", [], 15]);
    assertStringIncludes(
      answer.error.text,
      'blocked by policy: exfiltration (rule "no-evil"); ask your user',
    );
    assertEquals([resolver.seen.length, gate.entries.length], [0, 1]);
    assertEquals([gate.entries[0].decision?.decision, gate.entries[0].outcome], ["block", undefined]);
    await assertRejects(() => dns.lookup("x.evil.test", "host"), SbxError, "exfiltration");
    assertEquals(gate.entries[1].event.common.actor, "host");
  }, { rules });
});

Deno.test("an answer that leads into a private network is blocked, from the resolver and from the cache", async () => {
  for (
    const [data, type] of [["10.0.0.1", "A"], ["169.254.169.254", "A"], ["::ffff:127.0.0.1", "AAAA"], [
      "fd00::1",
      "AAAA",
    ]]
  ) {
    await withService(records({ name: "a.test", type, ttl: 300, data }), async (dns, gate, resolver) => {
      for (const cached of [false, true]) {
        const answer = read(await dns.answer(ask("a.test", type, { id: cached ? 1 : 2 }), BY));
        assertEquals(
          [answer.rcode, answer.data, answer.error.code],
          ["NXDOMAIN", [], 15],
          `${data} ${cached}`,
        );
        assertStringIncludes(answer.error.text, "private");
        assertEquals(gate.entries[Number(cached)].decision?.rule.id, "block-private-dns");
      }
      assertEquals([resolver.seen.length, dns.agrees("a.test", data)], [1, false]);
    });
  }
});

Deno.test("an answer's chain of aliases is relayed and recorded, up to its end", async () => {
  const chain = [
    { name: "www.test", type: "CNAME", ttl: 60, data: "b.test" },
    { name: "b.test", type: "CNAME", ttl: 60, data: "c.test" },
    A("8.8.4.4", "c.test"),
  ];
  await withService(records(...chain), async (dns, gate) => {
    assertEquals(read(await dns.answer(ask("www.test"), BY)).data, ["b.test", "c.test", "8.8.4.4"]);
    const response = gate.entries[0].outcome?.response as { answers: string[] };
    assertEquals(response.answers, ["b.test", "c.test", "8.8.4.4"]);
    assert(dns.agrees("www.test", "8.8.4.4"));
  });
  const loop = [
    { name: "a.test", type: "CNAME", ttl: 60, data: "b.test" },
    { name: "b.test", type: "CNAME", ttl: 60, data: "a.test" },
  ];
  await withService(records(...loop), async (dns) => {
    assertEquals(read(await dns.answer(ask("a.test"), BY)).data, ["b.test", "a.test"]);
  });
});

Deno.test("missing names, failing resolvers and types with empty answers", async () => {
  const soa = {
    mname: "ns.test",
    rname: "hostmaster.test",
    serial: 1,
    refresh: 1,
    retry: 1,
    expire: 1,
    minimum: 30,
  };
  await withService(
    () => ({ flags: 3, authorities: [{ name: "test", type: "SOA", ttl: 30, data: soa }] }),
    async (dns, _, resolver) => {
      for (const id of [1, 2]) {
        assertEquals(read(await dns.answer(ask("no.test", "A", { id }), BY)).rcode, "NXDOMAIN");
      }
      assertEquals(resolver.seen.length, 1, "a missing name is cached");
      await assertRejects(() => dns.lookup("no.test"), SbxError, "no.test has no address");
    },
  );
  await withService(() => ({ flags: 2 }), async (dns, gate) => {
    const answer = read(await dns.answer(ask("a.test"), BY));
    assertEquals([answer.rcode, answer.error], ["SERVFAIL", {
      code: 22,
      text: "the resolver answered SERVFAIL",
    }]);
    assertEquals(gate.entries[0].outcome?.error, "the resolver answered SERVFAIL");
    await assertRejects(() => dns.lookup("a.test"), SbxError, "cannot be looked up");
  });
  for (const type of ["HTTPS", "SVCB"]) {
    await withService(records(), async (dns, gate, resolver) => {
      const number = { HTTPS: "UNKNOWN_65", SVCB: "UNKNOWN_64" }[type]!;
      const answer = read(await dns.answer(ask("a.test", number), BY));
      assertEquals([answer.rcode, answer.data, answer.questions[0].type], ["NOERROR", [], number]);
      assertEquals([gate.entries[0].event.dns?.request.qtype, resolver.seen.length], [type, 0]);
    });
  }
});

Deno.test("an unreadable query is refused, with an event", async () => {
  const two = ask("a.test", "A", {
    questions: [{ name: "a.test", type: "A" }, { name: "b.test", type: "A" }],
  });
  const cases: [string, Uint8Array, string, string][] = [
    ["nothing", new Uint8Array(), "FORMERR", "guard-dns-malformed"],
    ["two questions", two, "REFUSED", "guard-dns-questions"],
    ["an unsupported type", ask("a.test", "AXFR"), "NOTIMP", "guard-dns-type"],
    [
      "another class",
      ask("a.test", "A", { questions: [{ name: "a.test", type: "TXT", class: "CH" }] }),
      "NOTIMP",
      "guard-dns-type",
    ],
    ["an answer", ask("a.test", "A", { type: "response" }), "FORMERR", "guard-dns-malformed"],
    ["a long one", new Uint8Array(5000), "FORMERR", "guard-dns-too-large"],
    ["a name with a NUL in it", ask("a\0b.test"), "FORMERR", "guard-dns-name"],
  ];
  await withService(records(), async (dns, gate, resolver) => {
    for (const [name, bytes, rcode, rule] of cases) {
      const answer = read(await dns.answer(bytes, BY));
      assertEquals([answer.rcode, answer.error.code], [rcode, 15], name);
      const entry = gate.entries.at(-1)!;
      assertEquals([entry.decision?.rule.id, entry.decision?.decision], [rule, "block"], name);
    }
    assertEquals(gate.entries.length, cases.length);
    assertEquals(resolver.seen, []);
  });
});

Deno.test("a question waits for a person's answer, and a repeated query waits for the same answer", async () => {
  const rules = `
[profiles.rules.ask]
name = "ask"
action = "ask"
match = 'dns.request.qname == "a.test"'
`;
  await withService(records(A("8.8.4.4")), async (dns, gate, resolver) => {
    const both = [dns.answer(ask("a.test"), BY), dns.answer(ask("a.test"), BY)];
    assertEquals([gate.asks.pending().length, resolver.seen.length], [1, 0]);
    gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
    for (const answer of await Promise.all(both)) assertEquals(read(answer).data, ["8.8.4.4"]);
    assertEquals([gate.entries.length, resolver.seen.length], [1, 1]);
  }, { rules });
});

Deno.test("so many queries of a guest may be pending, and no more", async () => {
  await withService(records(A("8.8.4.4")), async (dns) => {
    const ids = Array.from({ length: PENDING_MAX + 1 }, (_, id) => id);
    const waiting = ids.map((id) => dns.answer(ask("b.test", "A", { id }), BY));
    const { rcode, error } = read(await dns.answer(ask("c.test"), BY));
    assertEquals([rcode, error.text.includes(`${PENDING_MAX} queries are pending`)], ["REFUSED", true]);
    await Promise.all(waiting);
  });
});

Deno.test("a rewritten name is resolved, and answered under the guest's own", async () => {
  const rules = `
[profiles.rules.mirror]
name = "mirror"
action = "rewrite"
match = 'dns.request.qname == "a.test"'
rewrite = [{ op = "set", path = "dns.request.qname", value = "mirror.test" }]
`;
  await withService(records(A("8.8.4.4", "mirror.test")), async (dns, _, resolver) => {
    const answer = read(await dns.answer(ask("a.test"), BY));
    assertEquals([answer.answers[0].name, answer.data], ["a.test", ["8.8.4.4"]]);
    assertEquals([resolver.seen[0].name, dns.agrees("a.test", "8.8.4.4")], ["mirror.test", true]);
  }, { rules });
});

Deno.test("names of network.upstream_overrides have a public address each, and lead to the user's targets", async () => {
  const overrides = ["api.test=127.0.0.1:8080", "API.test.:443=[::1]:8443", "other.test=127.0.0.1:9"];
  await withService(records(), async (dns, gate, resolver) => {
    assertEquals(dns.nameOf("203.0.113.1"), "api.test", "before it is asked for");
    const [address] = read(await dns.answer(ask("api.test"), BY)).data;
    assertEquals(gate.entries[0].decision?.decision, "allow");
    assertEquals(read(await dns.answer(ask("api.test", "AAAA"), BY)).data, []);
    assertEquals([dns.agrees("api.test", address), dns.nameOf(address)], [true, "api.test"]);
    const table = Overrides.parse(overrides);
    assertEquals(table.target("api.test", 80), { hostname: "127.0.0.1", port: 8080 });
    assertEquals(table.target("api.test", 443), { hostname: "::1", port: 8443 });
    assertEquals(table.target("plain.test", 443), undefined);
    assertEquals(await dns.lookup("other.test"), ["203.0.113.2"]);
    assertEquals(resolver.seen, []);
  }, { overrides });
});

Deno.test("a service of this machine has a name and its port, and no resolver is asked for its zone", () => {
  const services = [{ name: "ollama", port: 11434 }, { name: "ollama", port: 1 }];
  return withService(records(), async (dns, _, resolver) => {
    const [address] = read(await dns.answer(ask("Ollama.Host.sbx"), BY)).data;
    assertEquals(dns.nameOf(address), "ollama.host.sbx");
    for (const name of ["other.host.sbx", "host.sbx", "a.ollama.host.sbx"]) {
      assertEquals(read(await dns.answer(ask(name), BY)).rcode, "NXDOMAIN", name);
    }
    assertEquals(resolver.seen, []);
    const overrides = Overrides.parse([], services);
    assertEquals(overrides.target("ollama.host.sbx", 11434), { hostname: "127.0.0.1", port: 11434 });
    assertEquals(overrides.target("OLLAMA.host.sbx.", 1), { hostname: "127.0.0.1", port: 1 });
    for (const [name, port] of [["ollama.host.sbx", 80], ["other.host.sbx", 11434]] as const) {
      const error = assertThrows(() => overrides.target(name, port), SbxError);
      assertEquals(error.code, "upstream.failed");
    }
    assertEquals(overrides.target("ollama.host.sbx.example", 11434), undefined);
    for (const text of ["x.host.sbx=127.0.0.1:1", "HOST.sbx.=127.0.0.1:1"]) {
      const error = assertThrows(() => Overrides.parse([text]), SbxError);
      assertEquals(error.code, "network.override.invalid");
    }
  }, { services });
});

Deno.test("without a ledger no resolver is queried, and the guest gets the reason", async () => {
  const broken = new TestGate() as Gate;
  broken.decide = () => Promise.reject(new SbxError("ledger.unavailable", "the ledger cannot be written"));
  const resolver = await TestResolver.start(records(A("8.8.4.4")));
  const dns = new DnsService({ gate: broken, resolvers: [resolver.endpoint] });
  const answer = read(await dns.answer(ask("a.test"), BY));
  assertEquals([answer.rcode, answer.error.text], [
    "SERVFAIL",
    "sbx cannot record this now, so it does not happen",
  ]);
  assertEquals(resolver.seen, []);
  resolver.close();
});

const UNANSWERED = "sbx could not answer this query";

Deno.test("an allowed question is finished once, whatever fails after its decision", async () => {
  const failures: [name: string, error: Error, text: string, recorded: string][] = [
    [
      "an error of sbx",
      new SbxError("ledger.unavailable", "the ledger cannot be written"),
      "sbx cannot record this now, so it does not happen",
      "the ledger cannot be written",
    ],
    ["an unexpected error", new TypeError("secret detail"), UNANSWERED, UNANSWERED],
  ];
  for (const [name, error, text, recorded] of failures) {
    const outcomes: (Outcome | undefined)[] = [];
    const gate = new TestGate();
    const failing = Object.assign(Object.create(gate) as Gate, {
      async decide(...args: Parameters<Gate["decide"]>): Promise<Passage> {
        const { event, decision, allowed } = await gate.decide(...args);
        return {
          event,
          decision,
          allowed,
          markFirstByte() {},
          countSent() {},
          requireOpen() {},
          review() {
            throw error;
          },
          finish: (outcome) => void outcomes.push(outcome),
        };
      },
    });
    const resolver = await TestResolver.start(records(A("8.8.4.4")));
    const dns = new DnsService({ gate: failing, resolvers: [resolver.endpoint], tryMs: 30_000 });
    const answer = read(await dns.answer(ask("a.test"), BY));
    assertEquals([answer.rcode, answer.data, answer.error.text], ["SERVFAIL", [], text], name);
    assertEquals(outcomes, [{ error: recorded }], name);
    assertEquals(dns.agrees("a.test", "8.8.4.4"), false, name);
    resolver.close();
  }
});
