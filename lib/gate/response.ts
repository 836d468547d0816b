/** Events whose response comes after the decision. */
import { type Event, familyOf } from "../event/mod.ts";
import type { Policy } from "../policy/mod.ts";

/** Families whose events have a response. */
export const RESPONDING: ReadonlySet<string> = new Set(["http", "dns", "mcp", "model"]);

/** Families whose responses some rule reads. Decided by the rules' text: a false match costs a second evaluation, and none is missed. */
export function reviewedFamilies({ rules }: Policy): ReadonlySet<string> {
  const reading = rules.filter(({ rule }) => rule.match.includes("response"));
  return new Set([...RESPONDING].filter((family) => reading.some(({ rule }) => rule.match.includes(family))));
}

/** A copy of the event with the response in the object of its family. */
export function withResponse(event: Event, response: unknown): Event {
  const family = familyOf(event.common.event_type);
  return { ...event, [family]: { ...event[family], response } } as Event;
}
