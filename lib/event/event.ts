/** Building blocks of events in the hot path: types and ids, no zod at run time. */
import type { Event, PolicyContext } from "./schema.ts";

export type { Event, PolicyContext };

/** The objects that events are made of. */
export type EventCommon = Event["common"];
export type EventType = EventCommon["event_type"];
export type EventProcess = NonNullable<EventCommon["process"]>;
export type HttpEvent = NonNullable<Event["http"]>;
export type HttpBody = HttpEvent["request"]["body"];
export type DnsEvent = NonNullable<Event["dns"]>;
export type McpEvent = NonNullable<Event["mcp"]>;
export type ModelEvent = NonNullable<Event["model"]>;
export type FileActivity = NonNullable<Event["file"]>["activity"];
export type ProcessActivity = NonNullable<Event["process"]>["activity"];
export type CredentialSubstitution = NonNullable<Event["credential"]>["substitution"];

/** What stands before the dot of an event type. */
export type EventFamily = "http" | "dns" | "mcp" | "model" | "file" | "process" | "credential";

/** Family of an event type: `http` of `http.request`. */
export function familyOf(type: EventType): EventFamily {
  return type.slice(0, type.indexOf(".")) as EventFamily;
}

const SPACE = 2 ** 48;
let next = randomStart();

/**
 * A new event id, 12 hex characters (contracts.md §5). Ids count up from a random start: two sessions meet far
 * less often than random ids would, and the ledger's index grows at its end.
 */
export function newEventId(): string {
  next = (next + 1) % SPACE;
  return next.toString(16).padStart(12, "0");
}

function randomStart(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high & 0xffff) * 2 ** 32 + low;
}
