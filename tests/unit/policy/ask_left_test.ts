/** A guest that is answered before the person: its ask stays, for the person and for the next try. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { ASK_OPEN, LEFT_MAX, RETRY_MS } from "../../../lib/policy/ask/mod.ts";
import { AskQueue } from "../../../lib/policy/ask/queue.ts";
import { compilePolicy, type Decision, guestLine, guestRefusal } from "../../../lib/policy/mod.ts";
import { asking, post } from "./ask_world.ts";

const POLICY = compilePolicy([asking("profile")]);
const decide = (queue: AskQueue, event: Event, timeout?: number): Promise<Decision> =>
  queue.ask(event, POLICY.evaluate(event).decision, timeout);

function withHeader(value: string): Event {
  const event = post();
  event.http!.request.headers = { "x-try": [value] };
  return event;
}

Deno.test("an ask whose guest was answered stays open, and an answer once is for the next try", async () => {
  let now = 0;
  const queue = new AskQueue({ now: () => now });
  const event = post();
  const first = decide(queue, event);
  now = 12_000;
  queue.leave(event.common.event_id, true);
  const decision = await first;
  const [pending] = queue.pending();
  assertEquals([decision.decision, decision.answered?.open], ["block", true]);
  assertEquals(Date.parse(pending.expires_at), ASK_OPEN * 1000, "the person has longer");
  assertEquals(guestRefusal(decision).ask_id, pending.ask_id);
  assertStringIncludes(guestLine(decision), `${pending.ask_id} yet: try again, or say why: sbx-ask`);
  assertStringIncludes(decision.remedy!, `sbx allow ${pending.ask_id}`);

  queue.resolve(pending.ask_id, { decision: "allow", scope: "once" });
  now += RETRY_MS - 1;
  assertEquals((await decide(queue, post())).decision, "allow");
  const third = decide(queue, post());
  assertEquals(queue.pending().length, 1, "once is once");
  queue.close();
  await third;
});

Deno.test("a next try waits for the same ask, and is denied at once after a no", async () => {
  const queue = new AskQueue();
  const event = post();
  const first = decide(queue, event);
  queue.leave(event.common.event_id, true);
  await first;
  const again = post();
  const second = decide(queue, again);
  assertEquals(queue.pending().length, 1);
  queue.withdraw(again.common.event_id);
  assertEquals(queue.pending().length, 1, "a client that goes away while it waits again leaves it too");
  await second;
  queue.resolve(queue.pending()[0].ask_id, { decision: "deny", scope: "minutes", minutes: 10 });
  const third = await decide(queue, post());
  assertEquals([third.decision, third.answered?.status], ["block", "denied"]);
});

Deno.test("a rule's own time is kept", async () => {
  let now = 0;
  const queue = new AskQueue({ now: () => now });
  const event = post();
  const first = decide(queue, event, 30);
  now = 12_000;
  queue.leave(event.common.event_id, false);
  await first;
  assertEquals(Date.parse(queue.pending()[0].expires_at), 30_000);
  queue.close();
});

Deno.test("an event that cannot be recognized again goes on waiting", async () => {
  const queue = new AskQueue();
  const event = post();
  event.http!.request.body = { state: "binary", size: 9, truncated: false } as never;
  const first = decide(queue, event);
  queue.leave(event.common.event_id, true);
  queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "once" });
  assertEquals((await first).decision, "allow");
});

Deno.test("a client that changes its request at each try leaves few asks", async () => {
  const queue = new AskQueue();
  for (let at = 0; at < 20; at++) {
    const event = withHeader(`${at}`);
    const waiting = decide(queue, event);
    queue.leave(event.common.event_id, true);
    await waiting;
  }
  assertEquals(queue.pending().length, LEFT_MAX);
  // The newest are the ones that are left.
  queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "once" });
  assertEquals((await decide(queue, withHeader(`${20 - LEFT_MAX}`))).decision, "allow");
  queue.close();
});

Deno.test("an answer once to a lookup covers both types that were left", async () => {
  const rules = compilePolicy([{ ...asking("profile"), match: `common.event_type == "dns.query"` }]);
  const lookup = (qtype: string): Event => {
    const { common, schema_version } = post();
    return {
      schema_version,
      common: { ...common, event_type: "dns.query" },
      dns: { request: { qname: "a.test", qtype, transport: "udp" } },
    };
  };
  const ask = (event: Event) => queue.ask(event, rules.evaluate(event).decision);
  const queue = new AskQueue();
  const [a, aaaa] = [lookup("A"), lookup("AAAA")];
  const waiting = [ask(a), ask(aaaa)];
  for (const { common } of [a, aaaa]) queue.leave(common.event_id, true);
  await Promise.all(waiting);
  assertEquals(queue.pending().length, 1);
  queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "once" });
  const again = await Promise.all([ask(lookup("A")), ask(lookup("AAAA"))]);
  assertEquals(again.map(({ decision }) => decision), ["allow", "allow"]);
  assertEquals(queue.pending(), []);
});
