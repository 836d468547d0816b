/** Turns of an agent, told by its model calls. */
import { assertEquals } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { Turns, TurnStates } from "../../../lib/session/agent_turns.ts";

const call = (tools_count: number) => ({ model: { request: { tools_count } } }) as Event;
const answer = (...tools: string[]) => ({ status: 200, tool_calls: tools.map((name) => ({ name })) });

Deno.test("a turn begins with the first call after an answer that used no tool", async () => {
  let kept = 0;
  const turns = new Turns(() => Promise.resolve(kept++));
  const calls: [offered: number, response?: unknown][] = [
    [3, answer("edit")],
    [3, answer("edit")],
    // A title for the conversation.
    [0, answer()],
    // It broke off, and is sent again.
    [3],
    [3, answer()],
    [0, answer()],
    [3, answer("edit")],
  ];
  const seen: number[] = [];
  for (const [offered, response] of calls) {
    await turns.before(call(offered));
    turns.ended(call(offered), response);
    seen.push(kept);
  }
  assertEquals(seen, [1, 1, 1, 1, 1, 1, 2]);
});

Deno.test("a guest that calls models without end keeps ten states a minute at most", async () => {
  let kept = 0;
  const turns = new Turns(() => Promise.resolve(kept++));
  for (let at = 0; at < 50; at++) {
    await turns.before(call(1));
    turns.ended(call(1), answer());
  }
  // The minute may change meanwhile.
  assertEquals(kept === 10 || kept === 20, true, `${kept}`);
});

Deno.test("the call waits for the state to be kept, and other events wait for nothing", async () => {
  const made = Promise.withResolvers<void>();
  const turns = new Turns(() => made.promise);
  assertEquals(turns.before({} as Event), undefined);
  let isSent = false;
  const sent = turns.before(call(1))!.then(() => isSent = true);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assertEquals(isSent, false);
  made.resolve();
  await sent;
});

Deno.test("a turn waits for the answer to it alone, and the next takes its place", async () => {
  const states = new TurnStates();
  const told: { turn: string; at_unix_ms: number }[] = [];
  const done: number[] = [];
  const waits = [1, 2].map((at) => states.begin(at, (notice) => told.push(notice)).then(() => done.push(at)));
  assertEquals(told.map(({ at_unix_ms }) => at_unix_ms), [1, 2]);
  states.kept(crypto.randomUUID());
  states.kept(told[0].turn);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(done, []);
  states.kept(told[1].turn);
  await waits[1];
  assertEquals(done, [2]);
});
