/** Event types and ids for the hot path, without zod at run time. */
import type { Event, PolicyContext } from "./schema.ts";
import type { EventFamily } from "./family_name.ts";

export type { Event, PolicyContext };

/** An event with the final decision on it, as records list it; without one where no rule decided. */
export type DecidedEvent = Event & { decision?: string; rule_id?: string };

/** Parts of an event. */
export type EventCommon = Event["common"];
export type EventType = EventCommon["event_type"];
export type EventProcess = NonNullable<EventCommon["process"]>;
export type HttpEvent = NonNullable<Event["http"]>;
export type HttpGit = NonNullable<HttpEvent["request"]["git"]>;
export type HttpBody = HttpEvent["request"]["body"];
export type McpEvent = NonNullable<Event["mcp"]>;
export type ModelEvent = NonNullable<Event["model"]>;
export type FileActivity = NonNullable<Event["file"]>["activity"];
export type ProcessActivity = NonNullable<Event["process"]>["activity"];
export type CredentialSubstitution = NonNullable<Event["credential"]>["substitution"];

/** Family of an event type: `http` of `http.request`. */
export function familyOf(type: EventType): EventFamily {
  return type.slice(0, type.indexOf(".")) as EventFamily;
}

/** Number of possible ids. */
const SPACE = 2 ** 48;
let lastId = randomStart();

/**
 * Creates an event id, 12 hex characters (docs/design/contracts/05-policy.md §5). Ids count up from a random
 * start: collisions between sessions are rarer than with random ids, and the ledger's index grows at its end.
 */
export function newEventId(): string {
  lastId = (lastId + 1) % SPACE;
  return lastId.toString(16).padStart(12, "0");
}

function randomStart(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high & 0xffff) * 2 ** 32 + low;
}
