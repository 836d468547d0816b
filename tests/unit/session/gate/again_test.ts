/** Events that wait for a person while the rules change: the new rules decide them again. */
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { readEvents, readWhy } from "../../../../lib/ledger/read/mod.ts";
import type { EventHold } from "../../../../lib/session/gate/held.ts";
import { afterAsk, answerLine } from "../../../../lib/policy/decision/mod.ts";
import { type Ask, type AskRecord, compileLayers, guestAnswer } from "../../../../lib/policy/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import {
  ANY,
  contractOf,
  dns,
  exec,
  type GateFixture,
  http,
  RESPONSE,
  rule,
  withGate,
} from "../../../helper/session_gate.ts";

const ASKS = rule("profiles", "ask", "ask", ANY, "priority = 900");

/** Rule of the profile that decides on requests to a host. */
function saved(action: string, host: string): string {
  return rule("profiles", `saved-${action}`, action, `http.request.host == "${host}"`);
}

function use({ gate }: GateFixture, rules: string): void {
  gate.use(compileLayers(contractOf(rules)), []);
}

/** Ends of asks in the notices, in order. */
function ends({ notices }: GateFixture): unknown[] {
  return notices.flatMap(({ type, payload }) => {
    if (type !== "ask") return [];
    const { status, by_rule, subject } = payload as Ask;
    return status === "pending" ? [] : [[subject, status, by_rule]];
  });
}

for (
  const [action, allowed, decision, status] of [
    ["allow", true, "allow", "allowed"],
    ["block", false, "block", "denied"],
  ] as const
) {
  Deno.test(`a saved rule with ${action} decides each waiting event that it covers, and no other`, () =>
    withGate(ASKS, async (fixture) => {
      const { gate, ledger, path } = fixture;
      const covered = [gate.decide(http("a.example")), gate.decide(http("a.example", "POST"))];
      const other = gate.decide(http("b.example"));
      use(fixture, saved(action, "a.example") + ASKS);
      const passages = await Promise.all(covered);
      const id = `saved-${action}`;
      assertEquals(passages.map((each) => [each.allowed, each.decision.rule.id]), [
        [allowed, id],
        [allowed, id],
      ]);
      assertEquals(gate.asks.pending().map(({ subject }) => subject), ["GET https://b.example/"]);
      assertEquals(ends(fixture), [
        ["GET https://a.example/", status, id],
        ["POST https://a.example/", status, id],
      ]);
      for (const each of passages) if (each.allowed) each.finish({ response: RESPONSE });
      await ledger.flush();
      const why = await readWhy(path, passages[0].event.common.event_id);
      const { record } = why as unknown as { record: Record<string, unknown> };
      const { answered } = record as { answered: Record<string, unknown> };
      assertEquals([record.decision, answered.status, answered.by_rule, answered.by], [
        decision,
        status,
        id,
        undefined,
      ]);
      const { events } = await readEvents(path);
      assertEquals(
        events.filter(({ http }) => http!.request.host === "b.example").map(({ decision }) => decision),
        ["ask"],
      );
      gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "deny", scope: "once" });
      assertEquals((await other).allowed, false);
    }));
}

Deno.test("rules that still ask, or rewrite an event that waits, leave it to the person", () =>
  withGate(ASKS, async (fixture) => {
    const { gate } = fixture;
    const deciding = gate.decide(http("a.example"));
    const rewrite = `${saved("allow", "a.example")}${
      rule(
        "profiles",
        "v2",
        "rewrite",
        ANY,
        'rewrite = [{op = "set", path = "http.request.path", value = "/v2"}]',
      )
    }`;
    for (
      const rules of [ASKS, rule("corp", "corp-asks", "ask", ANY) + saved("allow", "a.example"), rewrite]
    ) {
      use(fixture, rules);
      assertEquals(gate.asks.pending().length, 1, rules);
    }
    gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
    assertEquals((await deciding).allowed, true);
  }));

Deno.test("a finding that came meanwhile asks the person, also where a saved rule allows", async () => {
  let isHeld = false;
  const refusal = { id: "finding-hold", reason: "a finding holds the network back" };
  const hold: EventHold = { of: () => isHeld ? { on: "ask", refusal } : undefined, found: () => {} };
  const gate = new TestGate(ASKS, { hold });
  const deciding = gate.decide(http("a.example"));
  isHeld = true;
  gate.use(compileLayers(contractOf(saved("allow", "a.example"))), []);
  assertEquals(gate.asks.pending().length, 1);
  isHeld = false;
  gate.use(compileLayers(contractOf(saved("allow", "a.example"))), []);
  assertEquals([(await deciding).allowed, gate.asks.pending()], [true, []]);
});

Deno.test("an ask whose guest was answered before the person ends with a rule that decides its next try", () =>
  withGate(ASKS, async (fixture) => {
    const { gate } = fixture;
    const held = gate.decide(http("a.example"));
    const [{ event_id }] = gate.asks.pending();
    gate.asks.leave(event_id, true);
    assertEquals((await held).decision.answered?.open, true);
    use(fixture, saved("allow", "a.example") + ASKS);
    assertEquals([gate.asks.pending(), (await gate.decide(http("a.example"))).allowed], [[], true]);
    assertEquals(ends(fixture), [["GET https://a.example/", "allowed", "saved-allow"]]);
  }));

Deno.test("a lookup that waits with another, whose guest was answered, gets no decision on that one", () =>
  withGate(ASKS, async (fixture) => {
    const { gate } = fixture;
    const [first, joined] = ["A", "AAAA"].map((type) => gate.decide(dns("a.example", type)));
    const [{ ask_id, event_id }] = gate.asks.pending();
    gate.asks.leave(event_id, true);
    assertEquals((await first).decision.answered?.open, true);
    use(fixture, rule("profiles", "only-a", "allow", 'dns.request.qtype == "A"') + ASKS);
    assertEquals(gate.asks.pending().map((ask) => ask.ask_id), [ask_id]);
    gate.asks.resolve(ask_id, { decision: "deny", scope: "once" });
    assertEquals((await joined).allowed, false);
  }));

Deno.test("a rule that counts events lets no more of them go than it would one by one", () => {
  const counts = (match: string) =>
    rule("profiles", "first", "allow", `${match} && history.count("http.request", "true", "1h") < 1`);
  // The question is old enough for an answer.
  return withGate(counts('http.request.host == "none.example"') + ASKS, async (fixture) => {
    const { gate } = fixture;
    const deciding = ["a", "b", "c"].map((name) => gate.decide(http(`${name}.example`)));
    use(fixture, counts("has(http.request.host)") + ASKS);
    assertEquals((await deciding[0]).allowed, true);
    assertEquals(gate.asks.pending().map(({ subject }) => subject), [
      "GET https://b.example/",
      "GET https://c.example/",
    ]);
    // It counts once: one more may go.
    use(fixture, counts("has(http.request.host)").replace("< 1", "< 2") + ASKS);
    gate.close();
    assertEquals((await Promise.all(deciding)).map(({ allowed }) => allowed), [true, true, false]);
  });
});

const FINDING = 'priority = 900\ndetection_level = "low"';

Deno.test("changed rules that decide an event that waits make their findings, once", () =>
  withGate(rule("profiles", "ask", "ask", ANY, FINDING), async (fixture) => {
    const { gate, findings } = fixture;
    const deciding = ["a.example", "b.example"].map((host) => gate.decide(http(host)));
    use(
      fixture,
      rule("profiles", "broken", "allow", '1 / (http.request.host == "a.example" ? 0 : 1) > 1') +
        rule("profiles", "late", "block", "http.response.status == 500") +
        rule("profiles", "allowed", "allow", ANY, FINDING),
    );
    const [blocked, allowed] = await Promise.all(deciding);
    assertEquals([blocked.allowed, blocked.decision.rule.id], [false, "broken"]);
    assertEquals([allowed.allowed, allowed.review(RESPONSE)], [true, undefined]);
    allowed.finish({ response: RESPONSE });
    assertEquals(findings(), ["ask", "ask", "allowed", "broken", "allowed"]);
  }));

Deno.test("a program that waits runs by a rule that was saved meanwhile", () =>
  withGate(ASKS, async (fixture) => {
    const { gate, ledger, path } = fixture;
    const deciding = gate.decide(exec("ls"));
    use(fixture, rule("profiles", "ls", "allow", 'process.activity.executable == "ls"') + ASKS);
    const { allowed, decision } = await deciding;
    assertEquals([allowed, decision.rule.id], [true, "ls"]);
    await ledger.flush();
    const [read] = (await readEvents(path)).events;
    assertEquals([read.decision, read.rule_id], ["allow", "ls"]);
  }));

Deno.test("the same answer to an ask that a rule has decided is taken, and another is refused", () =>
  withGate(ASKS, async (fixture) => {
    const { gate } = fixture;
    const deciding = gate.decide(http("a.example"));
    const [{ ask_id, digest }] = gate.asks.pending();
    use(fixture, saved("allow", "a.example") + ASKS);
    await deciding;
    assertEquals(gate.asks.decidedByRules().map((ask) => ask.ask_id), [ask_id]);
    const { status, by_rule } = gate.asks.resolve(
      ask_id,
      { decision: "allow", scope: "once" },
      undefined,
      digest,
    );
    assertEquals([status, by_rule], ["allowed", "saved-allow"]);
    for (
      const [decision, shown, code] of [["deny", digest, "ask.not_found"], [
        "allow",
        "0",
        "ask.changed",
      ]] as const
    ) {
      const answer = () => gate.asks.resolve(ask_id, { decision, scope: "once" }, undefined, shown);
      assertEquals(assertThrows(answer, SbxError).code, code);
    }
    assertEquals(gate.asks.inForce(), []);
  }));

Deno.test("records and guests of an event that a changed rule blocked name that rule, not a person", () =>
  withGate(ASKS, async (fixture) => {
    const { gate, notices } = fixture;
    const deciding = gate.decide(http("a.example"));
    use(fixture, saved("block", "a.example") + ASKS);
    const { decision } = await deciding;
    assertMatch(
      answerLine(decision.answered!),
      /^denied by the changed rules \(saved-block\) at \d{4}-/,
    );
    assertEquals(
      guestAnswer(decision),
      'blocked by policy: saved-block (rule "saved-block"); ask your user: sbx-ask HOST --why TEXT',
    );
    // Of a request under way, from the record of its ask.
    const { payload } = notices.findLast(({ type }) => type === "ask")!;
    const { remedy } = afterAsk({ ...decision, decision: "ask" }, payload as AskRecord);
    assertMatch(remedy!, /^the rules changed at \d{4}-\S+ \(saved-block\): sbx policy/);
  }));
