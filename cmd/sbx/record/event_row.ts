/** Events for people, one line each. */
import type { EventsResult } from "../../../lib/client/api/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
// Not through lib/policy/mod.ts, which loads the rule engine.
export { subjectWithError } from "../../../lib/policy/decision/mod.ts";

export type ListedEvent = EventsResult["events"][number];

/** Decision on an event and its rule, such as `block corp-no-curl`; empty for events that are only observed. */
export function decisionOf({ decision, rule_id }: ListedEvent): string {
  if (decision === undefined) return "";
  return decision === "allow" ? "allow" : `${decision} ${rule_id ?? ""}`.trim();
}

/** Unix time in `ms`. */
export function timeOf(event: ListedEvent): number {
  return Number(objectOf(event.common).timestamp_unix_ms ?? 0);
}
