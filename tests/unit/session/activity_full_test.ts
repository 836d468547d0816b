/** Programs of a guest that wait, when the record is full. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { GuestHolds } from "../../../lib/session/activity/holds.ts";
import { program } from "../../helper/activity.ts";
import { exec, rule, withGate } from "../../helper/session_gate.ts";

const RULES = rule("profiles", "ask-tac", "ask", 'process.activity.command.startsWith("tac")') +
  rule("profiles", "no-git", "block", 'process.activity.executable == "git"');

Deno.test("a full record lets no program run: neither one that is blocked, nor one that a person allows too late", () =>
  withGate(RULES, async ({ gate, ledger }) => {
    const answers: Record<string, unknown>[] = [];
    const holds = new GuestHolds(gate, {
      named: () => ({}),
      processes: { get: () => undefined },
      started: () => {},
      deadlineMs: 1000,
    });
    const answer = Promise.withResolvers<void>(), late = Promise.withResolvers<void>();
    holds.begin({
      send: (frame) => {
        answers.push(frame as Record<string, unknown>);
        if (answers.length === 2) answer.resolve();
        if (answers.length === 3) late.resolve();
        return Promise.resolve();
      },
    });
    const ask = (id: number, ...argv: string[]) =>
      holds.take({ t: "Permission", id, kind: "exec", ...program(10 + id, 4, ...argv) });
    ask(1, "tac");
    while (gate.asks.pending().length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const [{ ask_id }] = gate.asks.pending();

    const fill = async () => {
      for (let at = 0; at < 5000; at++) {
        await gate.decide(exec("x".repeat(1000)));
        if (at % 50 === 49) await ledger.flush().catch(() => {});
      }
    };
    assertEquals((await assertRejects(fill, SbxError)).code, "ledger.unavailable");
    ask(2, "git", "push");
    await answer.promise;
    gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
    await late.promise;
    const decided = answers.slice(1).map(({ id, allow }) => [id, allow]);
    assertEquals(decided, [[2, false], [1, false]]);
    assertStringIncludes(String(answers[1].text), "blocked by policy");
    assertStringIncludes(String(answers[2].text), "cannot be recorded");
  }, { max_bytes: 1_000_000 }));
