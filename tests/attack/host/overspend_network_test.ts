/** Ways past a budget beside models: DNS, bodies without a length, relayed connections, several VMs. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DaySpending } from "../../../lib/policy/budget/mod.ts";
import { BudgetTerms } from "../../../lib/policy/budget/schema.ts";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import type { Draft } from "../../../lib/policy/mod.ts";
import { modelCall } from "../../helper/budget.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";
import { http } from "../../helper/policy.ts";
import { eventually } from "../../helper/sbx.ts";
import { cost } from "../../helper/spender.ts";

Deno.test("a call that a person allowed at the limit counts as well", async () => {
  const gate = new TestGate();
  gate.useBudget({ terms: { profile: BudgetTerms.parse({ requests: 1 }) }, cost });
  const request = {
    common: { event_type: "dns.query" as const, source_engine: "network" as const },
    dns: { request: { qname: "a.example", qtype: "A", transport: "udp" } },
  };
  await gate.decide(request);
  const deciding = gate.decide(request);
  await eventually("a person is asked", () => gate.asks.pending().length === 1, 20);
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
  assertEquals([(await deciding).allowed, gate.budgetUses()[0].used], [true, 2]);
});

Deno.test("DNS counts as requests and as bytes that leave", async () => {
  for (
    const [terms, rule] of [[{ requests: 3 }, "budget-requests"], [
      { bytes_out: 300 },
      "budget-bytes_out",
    ]] as const
  ) {
    const gate = new TestGate();
    gate.useBudget({ terms: { profile: BudgetTerms.parse({ ...terms, on_limit: "block" }) }, cost });
    const service = new DnsService({ gate, resolvers: [] });
    let blocked = 0;
    for (let at = 0; at < 9; at++) {
      await service.lookup(`${"a".repeat(60)}${at}.example`).catch(() => {});
      blocked = gate.entries.filter(({ decision }) => decision?.rule.id === rule).length;
    }
    assert(blocked > 0 && gate.entries.length - blocked <= 3, `${gate.entries.length - blocked} went out`);
  }
});

Deno.test("bytes of a body without a length, and of a relayed connection, count as they are sent", async (t) => {
  const piece = new Uint8Array(50_000);
  for (const how of ["chunks", "a tunnel"]) {
    await t.step(how, async () => {
      let got = 0;
      const upstream = rawUpstream(async (client) => {
        if (how === "a tunnel") await client.send("hello\n");
        while (true) {
          await client.take(1000);
          got += 1000;
        }
      });
      const rules =
        '[profiles.rules.relay]\naction = "allow"\nmatch = \'http.request.method == "CONNECT"\'\n';
      await using net = await TestNet.open({ rules, target: () => upstream.target });
      const terms = BudgetTerms.parse({ bytes_out: 300_000, on_limit: "block" });
      net.gate.useBudget({ terms: { profile: terms }, cost });
      const client = await net.client(how === "chunks" ? 80 : 5432);
      if (how === "chunks") {
        await client.send("POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
      } else await client.until("\n");
      const sending = async () => {
        for (let at = 0; at < 40; at++) {
          if (how === "chunks") await client.send(`${piece.length.toString(16)}\r\n`);
          await client.send(piece);
          if (how === "chunks") await client.send("\r\n");
        }
      };
      await sending().catch(() => {});
      client.close();
      await net.idle();
      const [{ used }] = net.gate.budgetUses();
      assert(got > 100_000 && got <= 300_000, `${got}`);
      assert(used > 300_000 && used < 500_000, `${used}`);
      upstream.close();
    });
  }
});

Deno.test("an upload in chunks is no way past a rule on the sum of bytes, nor out of the record", async () => {
  const match =
    `http.request.bytes + history.sum("http.request", "http.request.bytes", "true", "1h") > 300000`;
  const rules = `[profiles.rules.sum]\naction = "block"\nmatch = '${match}'\n`;
  let uploaded = 0;
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    for (; uploaded < 400_000; uploaded += 1000) await client.take(1000);
    await client.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  });
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const uploading = await net.client(80);
  await uploading.send("POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
  const piece = new Uint8Array(50_000);
  for (let at = 0; at < 8; at++) {
    await uploading.send(`${piece.length.toString(16)}\r\n`);
    await uploading.send(piece);
    await uploading.send("\r\n");
  }
  await uploading.send("0\r\n\r\n");
  await uploading.until("\r\n\r\n");
  const next = await net.client(80);
  await next.send("GET /y HTTP/1.1\r\nHost: a.test\r\n\r\n");
  await next.until("\r\n\r\n");
  const requests = net.gate.entries.filter(({ event }) => event.http);
  assertEquals(requests.map(({ decision }) => decision?.rule.id === "sum"), [false, true]);
  const [{ event: { http }, outcome }] = requests;
  assert(http!.request.bytes + outcome!.streamed_bytes! >= 400_000, `${JSON.stringify(outcome)}`);
  upstream.close();
});

Deno.test("calls of several VMs at once overspend a day by one request's limit", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const gates = ["a", "b", "c"].map((session) => {
      const gate = new TestGate();
      const terms = { profile: BudgetTerms.parse({ per_day_tokens: 10_000, on_limit: "block" }) };
      gate.useBudget({ terms, cost, day: new DaySpending(dir, session) });
      return gate;
    });
    let [spent, sent] = [0, 0];
    await Promise.all(gates.flatMap((gate) =>
      Array.from({ length: 8 }, async () => {
        const passage = await gate.decide(modelCall({ output: 2998 }));
        if (!passage.allowed) return;
        sent++;
        await new Promise((resolve) => setTimeout(resolve, 5));
        spent += 3000;
        const response = { status: 200, input_tokens: 2, output_tokens: 2998, tool_calls: [] };
        passage.finish({ response, use: { complete: true } });
      })
    ));
    assert(sent >= 4 && spent <= 13_000, `${sent} calls, ${spent}`);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a day whose spending cannot be read is a day that is spent", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const today = `${dir}/${new Date().toISOString().slice(0, 10)}`;
    await Deno.mkdir(today);
    await Deno.writeTextFile(`${today}/other.json`, "{");
    const gate = new TestGate();
    const terms = { profile: BudgetTerms.parse({ per_day_requests: 5 }) };
    gate.useBudget({ terms, cost, day: new DaySpending(dir, "own") });
    const request = {
      common: { event_type: "dns.query" as const, source_engine: "network" as const },
      dns: { request: { qname: "a.example", qtype: "A", transport: "udp" } },
    };
    const { decision } = await gate.decide(request);
    assertEquals(decision.decision, "block");
    assertStringIncludes(decision.rule.reason ?? "", "cannot be read");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("what a day counted too much gives the next one no room", async (t) => {
  const midnight = Date.UTC(2026, 0, 2);
  const dayOf = (dir: string, now: () => number) => new DaySpending(dir, "own", now);
  await t.step("a response in the background that is fetched after midnight", async () => {
    const dir = await Deno.makeTempDir();
    try {
      let now = midnight - 60_000;
      const day = dayOf(dir, () => now);
      const gate = new TestGate();
      const terms = { profile: BudgetTerms.parse({ per_day_tokens: 10_000, on_limit: "block" }) };
      gate.useBudget({ terms, cost, day, now: () => now });
      const passage = await gate.decide(modelCall({ output: 9000 }));
      const response = { status: 200, tool_calls: [] };
      passage.finish({ response, use: { complete: false, pending: true, later: "h/r" } });
      now = midnight + 60_000;
      gate.correctUse({ key: "h/r", input: 0, output: 1, answers: 1 });
      assertEquals(gate.budgetUses()[0].used, 0);
      await day.flush();
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });
  await t.step("a request that a person denies after midnight", async () => {
    const dir = await Deno.makeTempDir();
    try {
      let now = midnight - 60_000;
      const day = dayOf(dir, () => now);
      const gate = new TestGate('[profiles.rules.ask]\naction = "ask"\nmatch = "has(http.request)"\n');
      const terms = { profile: BudgetTerms.parse({ per_day_bytes_out: 10_000, on_limit: "block" }) };
      gate.useBudget({ terms, cost, day, now: () => now });
      const deciding = gate.decide(http({ bytes: 9000, host: "x.example" }) as Draft);
      await eventually("a person is asked", () => gate.asks.pending().length === 1, 20);
      now = midnight + 60_000;
      gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "deny", scope: "once" });
      assertEquals((await deciding).allowed, false);
      assertEquals(gate.budgetUses()[0].used, 0);
      await day.flush();
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });
});
