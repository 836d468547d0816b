/**
 * The words of decisions: for people, and the part that a guest is told (docs/design/contracts/05-policy.md
 * §5).
 */
import { assertEquals } from "@std/assert";
import { ASK_USER } from "../../../lib/base/error/mod.ts";
import {
  afterAsk,
  type Answered,
  answerLine,
  applyAnswer,
  type Decision,
  failedEvaluation,
  guardDecision,
  guardRemedy,
  guestLine,
  guestRefusal,
  isGuard,
  summary,
} from "../../../lib/policy/decision/mod.ts";
import { http } from "../../helper/policy.ts";

const AT = "2026-01-01T00:00:07.000Z";

function decision(rule: Partial<Decision["rule"]>, more: Partial<Decision> = {}): Decision {
  return {
    event_id: "e",
    decision: "block",
    rule: { id: "r", name: "n", layer: "profile", ...rule },
    matched_fields: [],
    rewrites: [],
    evaluated: 1,
    near_misses: [],
    ...more,
  };
}

const answered = (more: Partial<Answered>): Answered => ({
  status: "denied",
  ask_id: "ask-e",
  at: AT,
  waited_ms: 7400,
  scope: "once",
  ...more,
});

Deno.test("a summary names the outcome, the reason, the rule and the remedy", () => {
  const cases: [decision: Decision, line: string][] = [
    [decision({ reason: "why" }), 'blocked by policy: why (profile rule "r")'],
    [decision({ layer: "corp" }, { decision: "allow" }), 'allowed by policy: n (corp rule "r")'],
    [
      decision({}, { decision: "ask", remedy: "approve it" }),
      'waits for approval by policy: n (profile rule "r"); approve it',
    ],
    [decision({ id: "none", layer: "none" }), "blocked by policy: n (no rule matched)"],
    [decision({ id: "guard-x", layer: "default" }), 'blocked by policy: n ("guard-x")'],
  ];
  for (const [each, line] of cases) assertEquals(summary(each), line);
});

Deno.test("a guest is told the rule and its reason, and no remedy but a guard's", () => {
  const hint = (each: Decision) => guestRefusal(each).hint;
  assertEquals(guestRefusal(decision({ file: "f", line: 1 }, { remedy: "change f:1" })), {
    event_id: "e",
    decision: "block",
    rule: { id: "r", reason: "n" },
    hint: ASK_USER,
  });
  assertEquals(hint(decision({ id: "guard-x" }, { remedy: "use TLS" })), "use TLS");
  assertEquals(hint(decision({ id: "guard-x" })), ASK_USER);
  assertEquals(hint(decision({}, { answered: answered({}) })), "your user denied it");
  assertEquals(
    hint(decision({}, { answered: answered({ status: "expired" }) })),
    `no one answered in time: ${ASK_USER}`,
  );
  assertEquals(hint(decision({}, { answered: answered({ status: "allowed" }) })), ASK_USER);
  assertEquals(guestLine(decision({ reason: "why" })), `blocked by policy: why (rule "r"); ${ASK_USER}`);
  assertEquals(guestLine(decision({ layer: "none" })), `blocked by policy: n; ${ASK_USER}`);
  assertEquals(guestLine(decision({ id: "guard-x" })), `blocked by policy: n ("guard-x"); ${ASK_USER}`);
});

Deno.test("the block of a guard has its reason, and its remedy if it has one", () => {
  const refusal = { id: "guard-x", reason: "why" };
  const expected = decision({ id: "guard-x", name: "guard-x", layer: "default", reason: "why" }, {
    evaluated: 0,
  });
  assertEquals(guardDecision("e", refusal), expected);
  assertEquals(guardDecision("e", { ...refusal, remedy: "do" }), { ...expected, remedy: "do" });
  assertEquals([isGuard("guard-x"), isGuard("x-guard-")], [true, false]);
  assertEquals(
    guardRemedy("guard-malformed-tls"),
    "use TLS on this port, with the host name in the ClientHello",
  );
  assertEquals(
    guardRemedy("guard-x"),
    "no rule can allow it; docs/concepts/network.md lists the guards and their reasons",
  );
  for (const error of [new Error("x"), "x"]) {
    const { decision: blocked, failures, findings, event } = failedEvaluation(http(), error);
    assertEquals([blocked.decision, blocked.rule.id, findings], ["block", "guard-evaluation", []]);
    assertEquals(failures, [{
      rule_id: "guard-evaluation",
      event_id: event.common.event_id,
      message: "the rules cannot be evaluated on this event: x",
    }]);
  }
});

Deno.test("the record of an answer, in one line", () => {
  const by = { user: "ann", client: "sbx/1" };
  const cases: [answer: Partial<Answered>, line: string][] = [
    [{}, `denied by a person at ${AT}, once`],
    [{ status: "allowed", by }, `allowed by ann (sbx/1) at ${AT}, once`],
    [{ scope: "session" }, `denied by a person at ${AT}, for the session (ask-e)`],
    [{ scope: "minutes", minutes: 1 }, `denied by a person at ${AT}, for 1 minute (ask-e)`],
    [{ scope: "minutes", minutes: 2 }, `denied by a person at ${AT}, for 2 minutes (ask-e)`],
    [{ status: "expired" }, `no one answered within 7 s; it counted as denied at ${AT}`],
    [{ by_rule: "web" }, `denied by the changed rules (web) at ${AT}`],
    [{ by_rule: "guard-response" }, `denied by the guard guard-response at ${AT}`],
  ];
  for (const [answer, line] of cases) assertEquals(answerLine(answered(answer)), line);
});

Deno.test("a decision after its ask says how that ended", () => {
  const again = "when it is tried again, sbx asks lists it and sbx allow ASK lets it pass";
  const remedy = (answer: Partial<Answered>) =>
    applyAnswer(decision({}, { decision: "ask", remedy: "approve it" }), answered(answer)).remedy;
  assertEquals(remedy({ status: "allowed" }), undefined);
  assertEquals(remedy({}), `a person denied it at ${AT}: ${again}`);
  assertEquals(remedy({ status: "expired" }), `no one answered within 7 s: ${again}`);
  assertEquals(
    remedy({ scope: "session" }),
    `a person denied it at ${AT}, for the session (ask-e): after that, or after sbx stop and sbx start, it is asked again`,
  );
  assertEquals(
    remedy({ by_rule: "web" }),
    `the rules changed at ${AT} (web): sbx policy changes PROFILE lists it`,
  );
  assertEquals(
    remedy({ by_rule: "guard-response" }),
    `the guard guard-response answered it at ${AT}: sbx list shows what holds the VM back`,
  );
  const record = {
    ask_id: "ask-e",
    created_at: "2026-01-01T00:00:00.000Z",
    resolved_at: AT,
    status: "allowed",
    answer: { decision: "allow", scope: "minutes", minutes: 5 },
    answered_by: { user: "ann", client: "sbx/1" },
  };
  const after = (more: object) =>
    afterAsk(decision({}, { decision: "ask" }), { ...record, ...more } as never);
  assertEquals([after({}).decision, after({}).answered], [
    "allow",
    {
      ask_id: "ask-e",
      at: AT,
      by: { user: "ann", client: "sbx/1" },
      scope: "minutes",
      minutes: 5,
      status: "allowed",
      waited_ms: 7000,
    },
  ]);
  const unanswered = after({ status: "pending", answer: undefined, answered_by: undefined });
  assertEquals([unanswered.decision, unanswered.answered], [
    "block",
    { ask_id: "ask-e", at: AT, status: "expired", waited_ms: 7000 },
  ]);
});
