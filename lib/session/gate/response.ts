/** Events whose response comes after the decision. */
import { type Event, familyOf } from "../../event/mod.ts";
import type { Policy } from "../../policy/mod.ts";

/** Families whose events have a response. */
export const RESPONDING: ReadonlySet<string> = new Set(["http", "dns", "mcp", "model"]);

/** Families whose responses some rule reads. */
export function reviewedFamilies({ rules }: Policy): ReadonlySet<string> {
  const paths = rules.flatMap(({ paths }) => paths);
  return new Set(
    [...RESPONDING].filter((family) => paths.some((path) => path.startsWith(`${family}.response.`))),
  );
}

/** A copy of the event with the response in the object of its family. */
export function withResponse(event: Event, response: unknown): Event {
  const family = familyOf(event.common.event_type);
  return { ...event, [family]: { ...event[family], response } } as Event;
}
