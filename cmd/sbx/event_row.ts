/** Events for people, one line each. */
import type { EventsResult } from "../../lib/api/mod.ts";
import { isObject } from "../../lib/base/object/mod.ts";
// Not through mod.ts, which loads the rule engine.
import { subjectLine } from "../../lib/policy/decision/mod.ts";

export type ListedEvent = EventsResult["events"][number];
type Fields = Record<string, unknown>;

/** Subject of an event with its result: a request and its status, a DNS question and its answers, a program and its exit code. */
export function subjectOf(event: ListedEvent): string {
  const { error } = objectOf(event.outcome);
  const subject = subjectLine(event);
  return error === undefined ? subject : `${subject} (${error})`;
}

/** Decision on an event and its rule, such as `block corp-no-curl`; empty for events that are only observed. */
export function decisionOf({ decision, rule_id }: ListedEvent): string {
  if (decision === undefined) return "";
  return decision === "allow" ? "allow" : `${decision} ${rule_id ?? ""}`.trim();
}

/** Unix time in `ms`. */
export function timeOf(event: ListedEvent): number {
  return Number(objectOf(event.common).timestamp_unix_ms ?? 0);
}

/** Returns an object as it is, and anything else as an empty object. */
export function objectOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}
