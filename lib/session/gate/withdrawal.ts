/**
 * Withdrawing an answer that covers further events, on record
 * (docs/design/contracts/05-policy.md §5, "Asks").
 */
import type { AnsweredBy, AskInForce, Draft } from "../../policy/mod.ts";
import type { SessionGate } from "./gate.ts";

/** The host's program that the event names. */
const PROGRAM = "sbx-answer";

/** @throws SbxError `ask.not_found`; `ledger.unavailable`, while an answer that denies stays */
export function withdrawAnswer(gate: SessionGate, askId: string, by: AnsweredBy): AskInForce {
  const standing = gate.asks.standing(askId);
  // Without an allowance the VM can do less, on record or not; a denial ends on record only.
  if (standing.answer.decision === "allow") gate.asks.revoke(askId);
  gate.observe(draftOf(standing, by));
  gate.asks.revoke(askId);
  return standing;
}

function draftOf(
  { ask_id, event_id, rule_id, answer }: AskInForce,
  { user, client }: AnsweredBy,
): Draft {
  const argv = [PROGRAM, "withdraw", ask_id];
  const labels = { ask: "withdraw", ask_id, event_id, rule_id, answer: answer.decision, user, client };
  return {
    common: { event_type: "process.exec", source_engine: "process", actor: "host", labels },
    process: {
      activity: { executable: PROGRAM, command: argv.join(" "), argv, cwd: "/", operation: "exec" },
    },
  };
}
