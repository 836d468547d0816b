import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { ASKS_MAX, SUBJECT_MAX } from "../../../lib/policy/ask/limit.ts";
import { AskQueue } from "../../../lib/policy/ask/queue.ts";
import type { AskRecord } from "../../../lib/policy/decision/decision.ts";
import { answerLine } from "../../../lib/policy/decision/mod.ts";
import { type AskAnswer, compilePolicy, type Decision, summary } from "../../../lib/policy/mod.ts";
import { ask, asking, post } from "./ask_world.ts";

const ANN = { user: "ann", client: "sbx/0.1.0" };

Deno.test("an ask waits until it is answered, and is shown and recorded", async () => {
  const records: AskRecord[] = [];
  const now = Date.UTC(2026, 0, 1);
  const queue = new AskQueue({ now: () => now, onResolved: (record) => records.push(record) });
  const event = post();
  const answer = ask(queue, event);
  const [shown] = queue.pending();
  assertMatch(shown.digest, /^[0-9a-f]{64}$/);
  assertEquals(shown, {
    ask_id: `ask-${event.common.event_id}-${shown.digest.slice(0, 8)}`,
    digest: shown.digest,
    event_id: event.common.event_id,
    session_id: "s",
    event_type: "http.request",
    subject: "POST https://example.com/",
    covers: "POST https://example.com:443/, with any query, headers and body",
    covers_host: "every request to example.com, and lookups of its addresses",
    covers_method: "every POST request to https://example.com:443, of any path",
    covers_path: "every request to https://example.com:443/, of any method",
    rule_id: "posts",
    reason: "someone looks first",
    created_at: "2026-01-01T00:00:00.000Z",
    expires_at: "2026-01-01T00:01:00.000Z",
    status: "pending",
  });
  queue.resolve(shown.ask_id, { decision: "allow", scope: "once" }, ANN);
  assertEquals(await answer, "allow");
  assertEquals(queue.pending(), []);
  assertEquals(records.map(({ status, answered_by, answer }) => [status, answered_by, answer?.scope]), [[
    "allowed",
    ANN,
    "once",
  ]]);
  const error = assertThrows(
    () => queue.resolve(shown.ask_id, { decision: "allow", scope: "once" }),
    SbxError,
  );
  assertEquals(error.code, "ask.not_found");
});

Deno.test("an ask that nobody answers is denied", async () => {
  const records: AskRecord[] = [];
  const queue = new AskQueue({ onResolved: (record) => records.push(record) });
  const waiting = queue.ask(post(), compilePolicy([asking("profile")]).evaluate(post()).decision, 0.001);
  assertEquals((await waiting).decision, "block");
  assertEquals(records.map(({ status, answer }) => [status, answer]), [["expired", undefined]]);
});

Deno.test("an ask waits for seconds, not for less", async () => {
  const queue = new AskQueue();
  const waiting = queue.ask(post(), compilePolicy([asking("profile")]).evaluate(post()).decision, 60);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertEquals(queue.pending().length, 1);
  queue.close();
  assertEquals((await waiting).decision, "block");
});

Deno.test("other events do not wait for it", async () => {
  const queue = new AskQueue();
  const [first, second] = [ask(queue, post("a.example")), ask(queue, post("b.example"))];
  const [, { ask_id }] = queue.pending();
  queue.resolve(ask_id, { decision: "allow", scope: "once" });
  assertEquals(await second, "allow");
  assertEquals(queue.pending().length, 1);
  queue.close();
  assertEquals(await first, "block");
});

/** Which later asks an answer covers, by scope. */
const SCOPES: [AskAnswer, covered: boolean, coveredLater: boolean][] = [
  [{ decision: "allow", scope: "once" }, false, false],
  [{ decision: "allow", scope: "session" }, true, true],
  [{ decision: "allow", scope: "minutes", minutes: 10 }, true, false],
  [{ decision: "deny", scope: "session" }, true, true],
];
for (const [answer, covered, coveredLater] of SCOPES) {
  Deno.test(`${answer.decision} ${answer.scope} covers the same subject ${covered ? "again" : "never again"}`, async () => {
    let now = 0;
    const queue = new AskQueue({ now: () => now });
    const both = [ask(queue, post()), ask(queue, post()), ask(queue, post("other.example"))];
    queue.resolve(queue.pending()[0].ask_id, answer);
    assertEquals(queue.pending().length, covered ? 1 : 2);
    const later = ask(queue, post());
    now = 11 * 60_000;
    const muchLater = ask(queue, post());
    queue.close();
    const expected = answer.decision === "allow" ? "allow" : "block";
    assertEquals(await Promise.all([...both, later, muchLater]), [
      expected,
      covered ? expected : "block",
      "block",
      covered ? expected : "block",
      coveredLater ? expected : "block",
    ]);
  });
}

Deno.test("what a corp rule asks can be allowed once, not for longer; and be denied for the session", async () => {
  const queue = new AskQueue();
  const answer = ask(queue, post(), "corp");
  const [{ ask_id }] = queue.pending();
  for (const scope of ["session", "minutes"] as const) {
    const error = assertThrows(
      () => queue.resolve(ask_id, { decision: "allow", scope, minutes: 5 }),
      SbxError,
    );
    assertEquals(error.code, "policy.blocked");
  }
  queue.resolve(ask_id, { decision: "deny", scope: "session" });
  assertEquals([await answer, await ask(queue, post(), "corp")], ["block", "block"]);
});

Deno.test("minutes out of range are refused and the ask goes on waiting", async () => {
  const queue = new AskQueue();
  const answer = ask(queue, post());
  const [{ ask_id }] = queue.pending();
  for (const minutes of [undefined, 0, -1, NaN, 1441]) {
    assertEquals(
      assertThrows(() => queue.resolve(ask_id, { decision: "allow", scope: "minutes", minutes }), SbxError)
        .code,
      "ask.invalid",
    );
  }
  assertEquals(queue.pending().length, 1);
  queue.close();
  assertEquals(await answer, "block");
});

Deno.test("a guest that floods the queue is denied, and a closed queue denies", async () => {
  const queue = new AskQueue();
  const answers = Array.from({ length: ASKS_MAX }, (_, at) => ask(queue, post(`h${at}.example`)));
  assertEquals(await ask(queue, post("one.more")), "block");
  queue.close();
  assertEquals(new Set(await Promise.all(answers)), new Set(["block"]));
  assertEquals(await ask(queue, post()), "block");
});

Deno.test("an answer lasts as long as it says, and no longer than the session", async () => {
  let now = Date.UTC(2026, 0, 1);
  const queue = new AskQueue({ now: () => now });
  const first = ask(queue, post());
  queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "minutes", minutes: 1440 });
  assertEquals(await first, "allow");
  now += 1440 * 60_000 - 1;
  assertEquals(await ask(queue, post()), "allow");
  now += 1;
  const again = ask(queue, post());
  const [{ ask_id }] = queue.pending();
  queue.resolve(ask_id, { decision: "allow", scope: "session" });
  assertEquals([await again, await ask(queue, post())], ["allow", "allow"]);
  queue.close();
  assertEquals(await ask(queue, post()), "block");
});

Deno.test("an ask that is answered or withdrawn has no deadline any more", async () => {
  const records: AskRecord[] = [];
  const queue = new AskQueue({ onResolved: (record) => records.push(record) });
  const answers = ["a.test", "b.test"].map((host) => {
    const event = post(host);
    return {
      event,
      answer: queue.ask(event, compilePolicy([asking("profile")]).evaluate(event).decision, 0.02),
    };
  });
  queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "once" });
  queue.withdraw(answers[1].event.common.event_id);
  queue.withdraw(answers[1].event.common.event_id);
  assertEquals(
    (await Promise.all(answers.map(({ answer }) => answer))).map(({ decision }) => decision),
    ["allow", "block"],
  );
  await new Promise((resolve) => setTimeout(resolve, 60));
  assertEquals(records.map(({ status }) => status), ["allowed", "expired"]);
});

/** The decision that an ask was about, as it is once it is over. */
async function decided(
  queue: AskQueue,
  event: Event,
  end: (askId?: string) => void,
  timeout?: number,
): Promise<Decision> {
  const { decision } = compilePolicy([asking("profile")]).evaluate(event);
  assertStringIncludes(decision.remedy!, "approve it: sbx asks");
  const answer = queue.ask(event, decision, timeout);
  end(queue.pending()[0]?.ask_id);
  const after = await answer;
  assertEquals(decision.decision, "ask", "the decision that was asked about stays as it was");
  return after;
}

Deno.test("the decision says who answered, when, and for how long; what was let go has no remedy", async () => {
  let now = Date.UTC(2026, 0, 1);
  const queue = new AskQueue({ now: () => now });
  let asked = "";
  const allowed = await decided(queue, post(), (id) => {
    now += 2000;
    asked = id!;
    queue.resolve(id!, { decision: "allow", scope: "minutes", minutes: 10 }, ANN);
  });
  assertEquals(allowed.remedy, undefined);
  assertEquals(allowed.answered, {
    ask_id: asked,
    at: "2026-01-01T00:00:02.000Z",
    by: ANN,
    minutes: 10,
    scope: "minutes",
    status: "allowed",
    waited_ms: 2000,
  });
  assertEquals(
    answerLine(allowed.answered!),
    `allowed by ann (sbx/0.1.0) at 2026-01-01T00:00:02.000Z, for 10 minutes (${asked})`,
  );
  assertStringIncludes(answerLine({ ...allowed.answered!, minutes: 1 }), ", for 1 minute (");
  // Nobody was asked about the second: the answer to the first is on its record.
  const second = await decided(queue, post(), (id) => assertEquals(id, undefined));
  assertEquals([second.decision, second.answered], ["allow", allowed.answered]);
});

Deno.test("the remedy of a denied ask tells who denied it, and for how long", async () => {
  const queue = new AskQueue({ now: () => Date.UTC(2026, 0, 1) });
  const once = await decided(queue, post(), (id) => queue.resolve(id!, { decision: "deny", scope: "once" }));
  assertEquals(once.answered?.status, "denied");
  assertMatch(once.remedy!, /^a person denied it at 2026-01-01T00:00:00\.000Z: when it is tried again/);
  assertEquals(answerLine(once.answered!), "denied by a person at 2026-01-01T00:00:00.000Z, once");
  // The guest's answer.
  assertStringIncludes(summary(once), "a person denied it");
  const session = await decided(
    queue,
    post("b.example"),
    (id) => queue.resolve(id!, { decision: "deny", scope: "session" }),
  );
  assertMatch(session.remedy!, /denied it at .*, for the session .*sbx start/);
});

Deno.test("the remedy of what nobody answered says so, also when nobody could be asked", async () => {
  const expired = await decided(new AskQueue(), post(), () => {}, 0.001);
  assertEquals([expired.decision, expired.answered?.status], ["block", "expired"]);
  assertMatch(expired.remedy!, /^no one answered within \d+ s: when it is tried again/);
  assertStringIncludes(summary(expired), "blocked by policy");
  const closed = new AskQueue();
  closed.close();
  assertMatch((await decided(closed, post(), () => {})).remedy!, /the VM stops or is stopped/);
  const full = new AskQueue();
  const waiting = Array.from({ length: ASKS_MAX }, (_, at) => ask(full, post(`h${at}.example`)));
  assertMatch((await decided(full, post(), () => {})).remedy!, /100 asks are pending/);
  full.close();
  await Promise.all(waiting);
});

Deno.test("an ask names its event on one line of a length that a person reads", async () => {
  const queue = new AskQueue();
  const answer = ask(queue, post(`${"a".repeat(5000)}.example`));
  const [{ subject, event_type }] = queue.pending();
  assertEquals([event_type, subject.length], ["http.request", SUBJECT_MAX]);
  assert(subject.startsWith("POST https://aaa") && subject.endsWith("…"));
  queue.close();
  await answer;
});
