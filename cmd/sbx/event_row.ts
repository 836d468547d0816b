/** Events as people read them: one line each, with the part that says most. */
import type { EventsResult } from "../../lib/api/session.ts";
// Not through mod.ts: a table does not need what runs rules.
import { subjectLine } from "../../lib/policy/engine/subject.ts";

export type ListedEvent = EventsResult["events"][number];
type Fields = Record<string, unknown>;

/** What an event is about: a request and its status, a question and its answers, a program and its exit code. */
export function subjectOf(event: ListedEvent): string {
  const { error } = objectOf(event.outcome);
  const what = subjectLine(event);
  return error === undefined ? what : `${what} (${error})`;
}

/** `block corp-no-curl`, or what was decided otherwise; nothing for an event that was only observed. */
export function decisionOf({ decision, rule_id }: ListedEvent): string {
  if (decision === undefined) return "";
  return decision === "allow" ? "allow" : `${decision} ${rule_id ?? ""}`.trim();
}

export function timeOf(event: ListedEvent): number {
  return Number(objectOf(event.common).timestamp_unix_ms ?? 0);
}

export function objectOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? value as Fields : {};
}
