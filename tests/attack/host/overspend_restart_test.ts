/** A budget across the processes of a session: stop, start and kill give nothing back. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import type { Cost, Spent } from "../../../lib/policy/budget/mod.ts";
import { BudgetTerms } from "../../../lib/policy/budget/schema.ts";
import { SessionGate } from "../../../lib/session/gate/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Draft } from "../../../lib/policy/mod.ts";
import { Enforcement, readSpent } from "../../../lib/session/enforcement.ts";
import { sessionPaths, writeContract } from "../../../lib/session/mod.ts";
import { SESSION, withLedgerPath } from "../../helper/ledger.ts";
import { http } from "../../helper/policy.ts";
import { contractOf } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";
import { modelCall } from "../../helper/budget.ts";

/** A dollar for a million tokens of either kind. */
const cost: Cost = (_, __, { input = 0, output = 0 }) => input + output;

/** One process of a session. @param terms absent: without a budget */
async function run<T>(
  path: string,
  terms: object | undefined,
  use: (gate: SessionGate) => Promise<T>,
): Promise<T> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  const gate = new SessionGate({
    session: { id: SESSION, profile_id: "p", profile_revision: "1" },
    policy: compilePolicy(parseRules("", "rules.toml")),
    detections: [],
    recorder: ledger,
    tell: () => {},
    scrubValue: (value) => value,
  });
  if (terms) {
    const before = await readSpent(path, cost);
    gate.useBudget({ terms: { profile: BudgetTerms.parse({ on_limit: "block", ...terms }) }, cost, before });
  }
  return await use(gate);
}

const used = (gate: SessionGate) => gate.budgetUses().map(({ used }) => used);
const answered = (tokens: number) => ({
  response: {
    status: 200,
    input_tokens: 0,
    output_tokens: tokens,
    estimated_cost_micros: tokens,
    tool_calls: [],
  },
});

Deno.test("a start goes on with what was spent, also of calls that a kill cut off", () =>
  withLedgerPath(async (path) => {
    const terms = { tokens: 10_000, usd: 1, requests: 3, bytes_out: 1000 };
    const spent = await run(path, terms, async (gate) => {
      (await gate.decide(modelCall({ output: 4000 }))).finish(answered(700));
      await gate.decide(modelCall({ output: 4000 }));
      await gate.decide(http({ bytes: 100, host: "x.example" }) as Draft);
      await gate.decide(dns("y.example"));
      return used(gate);
    });
    assertEquals(spent, [0.0007, 700, 2, 127]);
    await run(path, terms, async (gate) => {
      const [usd, tokens, requests, bytes] = used(gate);
      assert(tokens >= 4700 && usd >= 0.0047, `${tokens} ${usd}`);
      assertEquals([requests, bytes], [2, 127]);
      await gate.decide(dns("z.example"));
      assertEquals((await gate.decide(dns("z.example"))).decision.rule.id, "budget-requests");
    });
  }));

Deno.test("a kill gives back little of what a relay, a WebSocket or a body without a length had sent", () =>
  withLedgerPath(async (path) => {
    const terms = { bytes_out: 1_000_000 };
    await run(path, terms, async (gate) => {
      const open = await Promise.all(
        [1, 2].map(() => gate.decide(http({ bytes: 0, host: "x.example" }) as Draft)),
      );
      for (let sent = 4096; sent <= 400_000; sent += 4096) {
        for (const passage of open) passage.countSent(sent);
      }
    });
    await run(path, terms, (gate) => {
      const [bytes] = used(gate);
      assert(bytes >= 770_000 && bytes <= 800_000, `${bytes}`);
      return Promise.resolve();
    });
  }));

Deno.test("a budget that comes later counts what was spent before it", () =>
  withLedgerPath(async (path) => {
    await run(path, undefined, async (gate) => {
      (await gate.decide(modelCall({ output: 4000 }))).finish(answered(900));
      await gate.decide(modelCall({ output: 4000 }));
    });
    await run(path, { tokens: 1_000_000 }, (gate) => {
      const [tokens] = used(gate);
      assert(tokens >= 128_900, `${tokens}`);
      return Promise.resolve();
    });
  }));

Deno.test("minutes go on where they were", () =>
  withLedgerPath(async (path) => {
    let now = Date.now();
    const terms = { minutes: 8, on_limit: "block" };
    const decide = async (gate: SessionGate) =>
      (await gate.decide(http({ bytes: 1, host: "x.example" }) as Draft)).decision.decision;
    for (const expected of ["allow", "block"]) {
      const before = await run(path, undefined, () => readSpent(path, cost));
      await run(path, undefined, async (gate) => {
        gate.useBudget({ terms: { profile: BudgetTerms.parse(terms) }, cost, before, now: () => now });
        now += 5 * 60_000;
        assertEquals(await decide(gate), expected);
        gate.recordMinutes();
      });
    }
    const { total, today } = await readSpent(path, cost) as Spent;
    assertEquals([total.minutes, today.minutes], [10, 10]);
  }));

Deno.test("a record that cannot be read is a budget that is spent", () =>
  withLedgerPath(async (path) => {
    const before = await readSpent(`${path}.gone`, cost);
    assertEquals(typeof before, "string");
    await run(path, undefined, async (gate) => {
      gate.useBudget({ terms: { profile: BudgetTerms.parse({ tokens: 1000, requests: 5 }) }, cost, before });
      for (const draft of [modelCall({ output: 10 }), dns("x.example")]) {
        const { decision } = await gate.decide(draft);
        assertEquals(decision.decision, "block");
        assertStringIncludes(decision.rule.reason ?? "", "cannot be read");
      }
    });
  }));

Deno.test("the processes of one session share its budget", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const id = crypto.randomUUID();
  const paths = sessionPaths(home, id);
  const contract = contractOf("");
  const budget = BudgetTerms.parse({ requests: 3, on_limit: "block" });
  const inProcess = async (work: (gate: SessionGate) => Promise<void>) => {
    const enforcement = await Enforcement.open({
      home,
      paths,
      record: recordOf(id, "v"),
      report: { tell() {}, set() {}, change() {}, noteHeads() {} },
      onUnrecorded: () => Promise.resolve(),
      onRecorded: () => Promise.resolve(),
      onLifetime() {},
    });
    try {
      await work(enforcement.gate);
    } finally {
      await enforcement.close();
    }
  };
  const send = async (gate: SessionGate) => {
    const passage = await gate.decide(http({ bytes: 1, host: "x.example" }) as Draft);
    passage.finish();
    return passage.decision.rule.id;
  };
  try {
    for (const folder of [paths.dir, dirname(paths.ledger)]) await Deno.mkdir(folder, { recursive: true });
    await writeContract(paths, { ...contract, profile: { ...contract.profile, budget } });
    await inProcess(async (gate) => {
      for (let at = 0; at < 2; at++) assertNotEquals(await send(gate), "budget-requests");
    });
    await inProcess(async (gate) => {
      assertEquals(used(gate), [2]);
      assertNotEquals(await send(gate), "budget-requests");
      assertEquals(await send(gate), "budget-requests");
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

function dns(qname: string): Draft {
  return {
    common: { event_type: "dns.query", source_engine: "network" },
    dns: { request: { qname, qtype: "A", transport: "udp" } },
  };
}
