/** What a decision record says of an ask once it is over (contracts.md §5). */
import type { AskRecord } from "./queue.ts";
import type { Answered, Decision } from "../engine/decision.ts";

/** Completes the decision that was asked about; whoever holds it finds out what became of it. */
export function complete(decision: Decision, answered: Answered): void {
  decision.answered = answered;
  if (answered.status === "allowed") delete decision.remedy;
  else decision.remedy = remedyAfter(answered);
}

/**
 * The record of an event that was asked about and whose end is not written yet, such as a request that still goes on:
 * what the ask's own record says of it.
 */
export function afterAsk(decision: Decision, record: AskRecord): Decision {
  const { ask_id, answer, created_at, resolved_at: at, resolved_by: by } = record;
  const status = record.status === "pending" ? "expired" : record.status;
  const copy: Decision = { ...decision, decision: status === "allowed" ? "allow" : "block" };
  complete(copy, {
    ask_id,
    at,
    ...(by !== undefined && { by }),
    ...(answer && { scope: answer.scope }),
    ...(answer?.minutes !== undefined && { minutes: answer.minutes }),
    status,
    waited_ms: Date.parse(at) - Date.parse(created_at),
  });
  return copy;
}

/** `allowed by a person at 2026-01-01T00:00:00.000Z, for 10 minutes`, or that nobody did. */
export function answerLine({ status, at, waited_ms, by, ...scope }: Answered): string {
  if (status === "expired") {
    return `${nobody(waited_ms)}; it counted as denied at ${at}`;
  }
  return `${status} by ${by ?? "a person"} at ${at}, ${reachOf(scope)}`;
}

function remedyAfter({ status, at, waited_ms, by, ...scope }: Answered): string {
  const again = "when it is tried again, sbx asks lists it and sbx allow ASK lets it pass";
  if (status === "expired") return `${nobody(waited_ms)}: ${again}`;
  const denied = `${by ?? "a person"} denied it at ${at}`;
  if (scope.scope === "once") return `${denied}: ${again}`;
  return `${denied}, ${reachOf(scope)}: after that, or after sbx stop and sbx start, it is asked again`;
}

function reachOf({ scope, minutes, ask_id }: Pick<Answered, "scope" | "minutes" | "ask_id">): string {
  if (scope === "minutes") return `for ${minutes} ${minutes === 1 ? "minute" : "minutes"} (${ask_id})`;
  return scope === "session" ? `for the session (${ask_id})` : "once";
}

function nobody(waitedMs: number): string {
  const seconds = Math.round(waitedMs / 1000);
  return `nobody answered within the ${seconds} s that it waited`;
}
