/** Budgets at the gate: what is counted, asked and blocked at a limit, and calls at the same time. */
import { assert, assertEquals } from "@std/assert";
import { type Cost, DaySpending, type LayeredTerms } from "../../../../lib/policy/budget/mod.ts";
import { BudgetTerms } from "../../../../lib/policy/budget/schema.ts";
import type { Draft, Outcome } from "../../../../lib/policy/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { modelCall } from "../../../helper/budget.ts";
import { http } from "../../../helper/policy.ts";

/** A dollar for a million tokens of either kind; one model is unknown. */
const cost: Cost = (_, model, { input = 0, output = 0 }) => model === "unknown" ? undefined : input + output;

function gateWith(profile: object, options: { corp?: object; day?: DaySpending; now?(): number } = {}) {
  const gate = new TestGate();
  const { corp, ...rest } = options;
  const terms: LayeredTerms = {
    profile: BudgetTerms.parse(profile),
    ...(corp && { corp: BudgetTerms.parse(corp) }),
  };
  gate.useBudget({ terms, cost, ...rest });
  return gate;
}

const call = (text = "{}", model = "m"): Draft => {
  const named = JSON.parse(text).max_tokens;
  return modelCall({ model, text, input: text.length, ...(named && { output: named }) });
};

/** The response of a call that used tokens. */
const used = (tokens: number) => ({
  response: {
    status: 200,
    input_tokens: 0,
    output_tokens: tokens,
    estimated_cost_micros: tokens,
    tool_calls: [],
  },
});

const request = (bytes = 0) => http({ bytes, host: "x.example" }) as Draft;

Deno.test("requests and bytes are counted exactly, and one more is blocked", async () => {
  const gate = gateWith({ requests: 3, bytes_out: 100, on_limit: "block" });
  const decide = async (bytes: number) => (await gate.decide(request(bytes))).decision;
  assertEquals((await decide(60)).decision, "allow");
  const over = await decide(41);
  assertEquals([over.decision, over.rule.id, over.rule.reason], [
    "block",
    "budget-bytes_out",
    "the budget of 100 bytes sent is used up",
  ]);
  assertEquals([(await decide(0)).decision, (await decide(0)).decision], ["allow", "allow"]);
  assertEquals((await decide(0)).rule.id, "budget-requests");
});

Deno.test("each limit tells how much of it is used, and a change of the limits keeps that", async () => {
  const gate = gateWith({ requests: 3, usd: 5 }, { corp: { tokens: 9000, on_limit: "block" } });
  await gate.decide(request());
  (await gate.decide(call())).finish(used(1000));
  const uses = () => gate.budgetUses().map(({ layer, limit, used, max }) => [layer, limit, used, max]);
  assertEquals(uses(), [
    ["corp", "tokens", 1000, 9000],
    ["profile", "usd", 0.001, 5],
    ["profile", "requests", 1, 3],
  ]);
  gate.useBudget({ terms: { profile: BudgetTerms.parse({ tokens: 2000 }) }, cost });
  assertEquals(uses(), [["profile", "tokens", 1000, 2000]]);
  assertEquals(new TestGate().budgetUses(), []);
});

Deno.test("64 calls at the same time overspend by at most one", async () => {
  for (const body of ['{"max_tokens":1000}', "{}"]) {
    const gate = gateWith({ tokens: 10_000, on_limit: "block" });
    let spent = 0;
    const results = await Promise.all(Array.from({ length: 64 }, async () => {
      const passage = await gate.decide(call(body));
      if (!passage.allowed) return passage.decision.rule.id;
      await new Promise((resolve) => setTimeout(resolve, 1));
      spent += 900;
      passage.finish(used(900));
      return "sent";
    }));
    const sent = results.filter((result) => result === "sent").length;
    assertEquals([sent, results.filter((id) => id === "budget-tokens").length], [12, 52], body);
    assert(spent <= 10_000 + 900);
  }
});

Deno.test("a broken-off call counts what it could use, and one that its provider did not count its text", async () => {
  const spend = async (body: string, outcome: Outcome) => {
    const gate = gateWith({ tokens: 1_000_000, on_limit: "block" });
    (await gate.decide(call(body))).finish(outcome);
    return gate.budgetUses()[0].used;
  };
  const limited = '{"max_tokens":4000}', size = limited.length;
  const answer = { response: { status: 200, tool_calls: [] } };
  const begun = { response: { status: 200, input_tokens: 5, output_tokens: 1, tool_calls: [] } };
  assertEquals(await spend(limited, { ...answer, error: "broken off" }), size + 4000);
  assertEquals(await spend(limited, { ...begun, error: "broken off" }), 5 + 4000);
  assertEquals(await spend(limited, { error: "no answer" }), size + 4000);
  assertEquals(await spend("{}", { error: "no answer" }), 2 + 128_000);
  assertEquals(await spend(limited, { error: "no way", use: { complete: false, unsent: true } }), 0);
  assertEquals(await spend(limited, { ...answer, use: { complete: true, text: 300 } }), size + 300);
  assertEquals(await spend(limited, { response: { status: 500, tool_calls: [] } }), 0);
});

Deno.test("at the limit a person is asked, and the request is held; a model without a price is asked about too", async () => {
  const gate = gateWith({ usd: 0.001 });
  (await gate.decide(call())).finish(used(1000));
  const deciding = gate.decide(call());
  await new Promise((resolve) => setTimeout(resolve));
  const [ask] = gate.asks.pending();
  assertEquals([ask.rule_id, ask.reason], ["budget-usd", "the budget of 0.001 US dollars is used up"]);
  // Requests that the budget does not count pass meanwhile.
  assertEquals((await gate.decide(request())).allowed, true);
  gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
  assertEquals((await deciding).allowed, true);
  const unknown = gateWith({ usd: 5, on_limit: "block" });
  const { decision } = await unknown.decide(call("{}", "unknown"));
  assertEquals(
    decision.rule.reason,
    "the price of unknown is not known, so the budget cannot count it; network.model_price_file adds prices",
  );
});

Deno.test("calls that providers do not bill use nothing, and need no price", async () => {
  const gate = gateWith({ tokens: 100, usd: 1, on_limit: "block" });
  const counting = { ...call("{}", "unknown"), bill: { parts: [], textual: false } };
  for (let at = 0; at < 3; at++) {
    const passage = await gate.decide(counting);
    assertEquals(passage.allowed, true);
    passage.finish({ response: { status: 200, input_tokens: 250, tool_calls: [] } });
  }
  assertEquals(gate.budgetUses().map(({ used }) => used), [0, 0]);
});

Deno.test("a notice is made once at 80 %, and a call that rules block gives its reservation back", async () => {
  const gate = gateWith({ requests: 10 });
  for (let at = 0; at < 9; at++) await gate.decide(request());
  const notices = gate.notices.flatMap(({ type, payload }) => type === "finding" ? payload.title : []);
  assertEquals(notices, ["80 % of the budget of 10 requests is used"]);
  const blocking = new TestGate(
    `[profiles.rules.no]\naction = "block"\nmatch = 'http.request.host == "x.example"'`,
  );
  blocking.useBudget({ terms: { profile: BudgetTerms.parse({ requests: 1, on_limit: "block" }) }, cost });
  for (let at = 0; at < 3; at++) assertEquals((await blocking.decide(request())).decision.rule.id, "no");
});

Deno.test("minutes end a session's requests, and corp's budget holds beside the profile's", async () => {
  let now = 0;
  const gate = gateWith({ minutes: 10, on_limit: "block" }, {
    now: () => now,
    corp: { requests: 1, on_limit: "ask" },
  });
  assertEquals((await gate.decide(request())).allowed, true);
  const deciding = gate.decide(request());
  await new Promise((resolve) => setTimeout(resolve));
  const [{ ask_id, rule_id }] = gate.asks.pending();
  assertEquals(rule_id, "budget-requests");
  let refused = "";
  try {
    gate.asks.resolve(ask_id, { decision: "allow", scope: "session" });
  } catch (error) {
    refused = (error as Error).message;
  }
  assert(refused.includes("can only be allowed once"));
  gate.asks.resolve(ask_id, { decision: "deny", scope: "once" });
  assertEquals((await deciding).allowed, false);
  now = 10 * 60_000;
  const later = BudgetTerms.parse({ minutes: 30, on_limit: "block" });
  gate.useBudget({ terms: { profile: later }, cost });
  assertEquals((await gate.decide(request())).allowed, true);
  now = 30 * 60_000;
  assertEquals((await gate.decide(request())).decision.rule.id, "budget-minutes");
});

Deno.test("a day's budget is that of all sessions of a profile, and begins again the next day", async () => {
  const dir = await Deno.makeTempDir();
  try {
    let now = Date.UTC(2026, 0, 1, 12);
    const day = (session: string) => new DaySpending(dir, session, () => now);
    const days = [day("a"), day("b")];
    const [first, second] = days.map((each) =>
      gateWith({ per_day_requests: 3, on_limit: "block" }, { day: each, now: () => now })
    );
    for (const gate of [first, first, second]) assertEquals((await gate.decide(request())).allowed, true);
    for (const each of days) await each.flush();
    now += 1000;
    assertEquals((await second.decide(request())).decision.rule.id, "budget-per_day_requests");
    // A session that starts again goes on with its own.
    const again = gateWith({ per_day_requests: 3, on_limit: "block" }, { day: day("a"), now: () => now });
    assertEquals((await again.decide(request())).allowed, false);
    now += 24 * 3_600_000;
    assertEquals((await second.decide(request())).allowed, true);
    for (const each of days) await each.flush();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
