/** The part of a decision record that says how its ask ended (docs/design/contracts/05-policy.md §5). */
import type { Answered, Decision } from "./decision.ts";
import type { AnsweredBy, Ask, AskAnswer } from "../ask/schema.ts";

/** The record of an answered or expired ask. */
export interface AskRecord extends Ask {
  answer?: AskAnswer;
  /** absent without an answer */
  answered_by?: AnsweredBy;
  resolved_at: string;
}

/** The decision that follows from an answer to a decision that was `ask`. */
export function applyAnswer({ remedy: _, ...asked }: Decision, answered: Answered): Decision {
  return answered.status === "allowed"
    ? { ...asked, decision: "allow", answered }
    : { ...asked, decision: "block", answered, remedy: remedyAfter(answered) };
}

/** The decision on an event whose end is not recorded yet, such as a request under way, from the record of its ask. */
export function afterAsk(decision: Decision, record: AskRecord): Decision {
  const { ask_id, answer, created_at, resolved_at: at, answered_by: by } = record;
  return applyAnswer(decision, {
    ask_id,
    at,
    ...(by !== undefined && { by }),
    ...(answer && { scope: answer.scope }),
    ...(answer?.minutes !== undefined && { minutes: answer.minutes }),
    status: record.status === "pending" ? "expired" : record.status,
    waited_ms: Date.parse(at) - Date.parse(created_at),
  });
}

/** `allowed by a person at 2026-01-01T00:00:00.000Z, for 10 minutes`, or that no answer came. */
export function answerLine({ status, at, waited_ms, by, ...scope }: Answered): string {
  if (status === "expired") {
    return `${nobody(waited_ms)}; it counted as denied at ${at}`;
  }
  return `${status} by ${nameOf(by)} at ${at}, ${reachOf(scope)}`;
}

function remedyAfter({ status, at, waited_ms, by, ...scope }: Answered): string {
  const again = "when it is tried again, sbx asks lists it and sbx allow ASK lets it pass";
  if (status === "expired") return `${nobody(waited_ms)}: ${again}`;
  const denied = `${nameOf(by)} denied it at ${at}`;
  if (scope.scope === "once") return `${denied}: ${again}`;
  return `${denied}, ${reachOf(scope)}: after that, or after sbx stop and sbx start, it is asked again`;
}

function nameOf(by: Answered["by"]): string {
  return by ? `${by.user} (${by.client})` : "a person";
}

function reachOf({ scope, minutes, ask_id }: Pick<Answered, "scope" | "minutes" | "ask_id">): string {
  if (scope === "minutes") return `for ${minutes} ${minutes === 1 ? "minute" : "minutes"} (${ask_id})`;
  return scope === "session" ? `for the session (${ask_id})` : "once";
}

function nobody(waitedMs: number): string {
  const seconds = Math.round(waitedMs / 1000);
  return `nobody answered within the ${seconds} s that it waited`;
}
