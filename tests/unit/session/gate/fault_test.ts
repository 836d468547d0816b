/**
 * A gate fails closed: rules that cannot be run, a ledger that cannot be written,
 * layers that try to undo corp's.
 */
import { Database } from "../../../../lib/ledger/database.ts";
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { Finding } from "../../../../lib/event/mod.ts";
import { readEvents, readFindings, verifyLedger } from "../../../../lib/ledger/read/mod.ts";
import { completeEvent } from "../../../../lib/policy/author/mod.ts";
import { ACTIONS, compileLayers, type Rule } from "../../../../lib/policy/mod.ts";
import { Random } from "../../../helper/random.ts";
import { contractOf, exec, http, RESPONSE, rule, withGate } from "../../../helper/session_gate.ts";

/** Rules that cannot be run on the event. */
const FAILING = {
  "divides by zero": "1 / (http.request.port - 443) > 0",
  "goes over its budget": `[1, 2].all(a, ${"[1,2,3,4,5,6,7,8,9,10].all(x, ".repeat(6)}true${")".repeat(6)})`,
};
for (const [what, match] of Object.entries(FAILING)) {
  Deno.test(`a rule that ${what} blocks its event, and whoever wrote it hears of it`, () =>
    withGate(rule("profiles", "bad", "allow", match), async ({ gate, ledger, path, findings }) => {
      const { allowed, decision, event } = await gate.decide(http());
      assertEquals([allowed, decision.rule.id], [false, "bad"]);
      await ledger.flush();
      assertEquals(findings(), ["bad"]);
      const [finding] = await readFindings(path) as Finding[];
      assertEquals([finding.event_id, finding.tags, finding.severity], [event.common.event_id, [
        "rule-failure",
      ], "high"]);
      assertMatch(finding.title, /^rules\.toml:\d+: profile rule "bad" failed: /);
    }));
}

Deno.test("while the ledger cannot be written nothing is decided, and it goes on where it stopped", () =>
  withGate("", async ({ gate, ledger, path, failures, close }) => {
    const [first, second] = [await gate.decide(http()), await gate.decide(http())];
    await ledger.flush();
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    first.finish();
    await assertRejects(() => ledger.flush(), SbxError);
    assertEquals(failures.length, 1);
    assertEquals((await assertRejects(() => gate.decide(http()), SbxError)).code, "ledger.unavailable");
    assertThrows(() => gate.observe(exec()), SbxError, "cannot be written");
    assertThrows(() => gate.refuse(http(), { id: "guard-x", reason: "x" }), SbxError, "cannot be written");
    // The event has happened and cannot be undone.
    second.finish();
    other.exec("ROLLBACK");
    other.close();
    await ledger.flush();
    assert((await gate.decide(http())).allowed);
    await close();
    const { events } = await readEvents(path);
    assertEquals(events.map(({ outcome }) => typeof outcome?.duration_ms), [
      "number",
      "undefined",
      "undefined",
    ]);
    assertEquals(await verifyLedger(path), { ok: true, events: 3, sealed: true });
  }));

Deno.test("a full ledger refuses what it cannot take, and says why", () =>
  withGate("", async ({ gate, ledger, path, failures, close }) => {
    const decided = async () => {
      for (let at = 0; at < 5000; at++) {
        await gate.decide(exec("x".repeat(1000)));
        if (at % 50 === 49) await ledger.flush().catch(() => {});
      }
    };
    assertEquals((await assertRejects(decided, SbxError)).code, "ledger.unavailable");
    assertEquals(failures.length, 1);
    assertMatch(failures[0], /full/);
    const code = async () => (await assertRejects(() => gate.decide(exec("the last one")), SbxError)).code;
    assertEquals(await code(), "ledger.unavailable");
    await close();
    assertEquals((await verifyLedger(path)).ok, true);
    const { events } = await readEvents(path, { denied: true });
    assertEquals(events.at(-1)?.rule_id, "guard-ledger");
    assertEquals(events.at(-1)?.process?.activity.command.includes("the last one"), true);
  }, { max_bytes: 1_000_000 }));

for (const draft of [http(), exec()]) {
  Deno.test(`an allowance that cannot be recorded lets no ${draft.common.event_type} go`, () =>
    withGate(rule("profiles", "ask", "ask", "has(common.event_id)"), async ({ gate, ledger, path }) => {
      const deciding = gate.decide(draft);
      await ledger.flush();
      const other = new Database(path);
      other.exec("BEGIN IMMEDIATE");
      gate.observe(exec("ls"));
      await assertRejects(() => ledger.flush(), SbxError);
      gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
      assertEquals((await assertRejects(() => deciding, SbxError)).code, "ledger.unavailable");
      other.exec("ROLLBACK");
      other.close();
    }));
}

Deno.test("a review makes no finding twice, and tells of rules that fail on the response", () => {
  const rules = rule("profiles", "seen", "allow", "has(common.event_id)", 'detection_level = "low"') +
    rule("corp", "bad", "block", "1 / (http.response.status - 200) > 5");
  return withGate(rules, async ({ gate, findings }) => {
    const passage = await gate.decide(http());
    assertEquals(findings(), ["seen"]);
    assertEquals(passage.review(RESPONSE)?.decision, "block");
    assertEquals(findings(), ["seen", "bad"]);
  });
});

const HOSTS = ["a.example", "b.example", "c.example"];
const METHODS = ["GET", "POST"];

/**
 * Rules whose ids meet those of the other layer and of the built-in rules; corp's
 * decide, a profile's rewrite as well.
 */
function randomRules(random: Random, ofCorp: boolean): Rule[] {
  const rules = Array.from({ length: random.below(6) }, (_, at): Rule => {
    const layer = random.below(4) === 0 ? "default" : ofCorp ? "corp" : "profile";
    const allowed = ACTIONS.filter((name) =>
      !(ofCorp && name === "rewrite") && !(layer === "default" && name === "observe")
    );
    const action = random.pick(allowed);
    const host = JSON.stringify(random.pick(HOSTS));
    const method = JSON.stringify(random.pick(METHODS));
    const match = random.pick([
      `http.request.host == ${host}`,
      `http.request.method == ${method}`,
      `http.request.host == ${host} && http.request.method == ${method}`,
      "has(http.request)",
      `!(http.request.host in [${host}])`,
    ]);
    const id = at === 0 ? "allow-http" : `r${at}`;
    const priority = {
      corp: -10 - random.below(3),
      profile: 10 + random.below(3),
      default: random.below(2000) - 1000,
    };
    return {
      ...{ id, layer, name: id, action, match, enabled: random.below(8) > 0, priority: priority[layer] },
      ...(action === "rewrite" && {
        rewrite: [{ op: "set", path: "http.request.host", value: random.pick(HOSTS) }],
      }),
    };
  });
  return rules.map((each) => [random.next(), each] as const).sort(([a], [b]) => a - b).map(([, each]) =>
    each
  );
}

Deno.test("what corp blocks no rule of a profile, no order of rules and no approval lets go", () =>
  withGate("", async ({ gate }) => {
    const random = new Random(0xc0de);
    const none = contractOf("");
    let blocks = 0;
    for (let round = 0; round < 200; round++) {
      const corp = { ...none.corp, rules: randomRules(random, true) };
      const alone = compileLayers({ ...none, corp });
      gate.use(compileLayers({ corp, profile: { ...none.profile, rules: randomRules(random, false) } }), []);
      for (const draft of HOSTS.flatMap((host) => METHODS.map((method) => http(host, method)))) {
        const { decision, rule } = alone.evaluate(completeEvent({ schema_version: 1, ...draft })).decision;
        const deciding = gate.decide(draft);
        // Everything that is asked is allowed, for as long as the session lasts where that is possible.
        for (const { ask_id } of gate.asks.pending()) {
          const ofCorp = rule.layer === "corp";
          gate.asks.resolve(ask_id, { decision: "allow", scope: ofCorp ? "once" : "session" });
        }
        const { allowed } = await deciding;
        if (decision !== "block" || rule.layer !== "corp") continue;
        blocks++;
        assertEquals(allowed, false, JSON.stringify({ round, corp, draft }));
      }
    }
    assert(blocks > 200, `${blocks}`);
  }));

Deno.test("a default of corp's stands in for the profile's of its id", () => {
  const allowing =
    contractOf(`[default.allow-http]\naction = "allow"\nmatch = 'has(http.request)'\n`).profile;
  const blocking =
    contractOf(`[default.allow-http]\naction = "block"\nmatch = 'has(http.request)'\n`).profile;
  const event = completeEvent({ schema_version: 1, ...http() });
  const decide = (corp: Rule[], profile: Rule[]) =>
    compileLayers({ corp: { rules: corp }, profile: { rules: profile } })
      .evaluate(event)
      .decision;
  assertEquals(decide(blocking.rules, allowing.rules).decision, "block");
  assertEquals(decide([], blocking.rules).decision, "block");
  assertEquals(decide([], []).decision, "allow");
});
