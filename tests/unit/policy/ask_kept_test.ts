/** Asks of a VM that is suspended: they wait on its disk for the requests that are sent again. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { AskQueue } from "../../../lib/policy/ask/queue.ts";
import type { AskRecord } from "../../../lib/policy/decision/decision.ts";
import { ask, post } from "./ask_world.ts";

Deno.test("an ask outlives its request while the VM is written down, with the time that was left", async () => {
  let now = Date.UTC(2026, 0, 1);
  const records: AskRecord[] = [];
  const queue = new AskQueue({ now: () => now, onResolved: (record) => records.push(record) });
  const event = post();
  const first = ask(queue, event);
  now += 20_000;
  queue.hold();
  queue.withdraw(event.common.event_id);
  assertEquals(await first, "block", "its request has ended");
  const kept = queue.take();
  queue.close();
  assertEquals([records, kept.map(({ remaining_ms }) => remaining_ms)], [[], [40_000]]);

  const shown: string[] = [];
  now += 3_600_000;
  const later = new AskQueue({ now: () => now, onAsk: ({ ask_id }) => void shown.push(ask_id) });
  later.restore(JSON.parse(JSON.stringify(kept)));
  const [pending] = later.pending();
  assertEquals(shown, [pending.ask_id]);
  assertStringIncludes(pending.ask_id, `ask-${event.common.event_id}-`);
  assertEquals(Date.parse(pending.expires_at), now + 40_000);
  const again = ask(later, post());
  const other = ask(later, post("other.example"));
  assertEquals(later.pending().length, 2, "the request that is sent again asks nothing new");
  later.resolve(pending.ask_id, { decision: "allow", scope: "once" });
  assertEquals(await again, "allow");
  const more = ask(later, post());
  later.close();
  assertEquals([await other, await more], ["block", "block"]);
});

Deno.test("an answer that comes before its request is sent again covers that one only, until the ask would have expired", async () => {
  for (const [wait, expected] of [[1000, "allow"], [61_000, "block"]] as const) {
    let now = 0;
    const queue = new AskQueue({ now: () => now });
    const event = post();
    const first = ask(queue, event);
    queue.hold();
    queue.withdraw(event.common.event_id);
    queue.release();
    await first;
    queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "once" });
    now = wait;
    const [again, third] = [ask(queue, post()), ask(queue, post())];
    queue.close();
    assertEquals([await again, await third], [expected, "block"]);
  }
});

Deno.test("asks that nobody could repeat end with the machine", async () => {
  const queue = new AskQueue();
  const observed = post("a.example");
  const waiting = ask(queue, {
    ...observed,
    common: { ...observed.common, enforceability: "observe_only" },
  });
  const long = post("b.example");
  long.http!.request.path = `/${"x".repeat(100_000)}`;
  const tooLong = ask(queue, long);
  queue.hold();
  assertEquals(queue.take(), []);
  queue.withdraw(observed.common.event_id);
  queue.withdraw(long.common.event_id);
  assertEquals([queue.pending(), await waiting, await tooLong], [[], "block", "block"]);
});
