import type { Event, Finding } from "../../event/mod.ts";
import type { Ask, Decision } from "../../policy/mod.ts";

/** An event that is on record. */
export interface RecordedEvent {
  event: Event;
  decision?: Decision;
  /** time in `ms` from the event to its first decision and the record of both; absent where no rule decided */
  decided_ms?: number;
}

/** News of a session for its watchers. */
export type SessionNotice =
  | { type: "security-event"; payload: RecordedEvent }
  | { type: "finding"; payload: Finding }
  | { type: "ask"; payload: Ask };

/** @param began of its evaluation, by `performance.now()` */
export function recordedOf(event: Event, decision?: Decision, began?: number): RecordedEvent {
  return {
    event,
    ...(decision && { decision }),
    ...(began !== undefined && { decided_ms: performance.now() - began }),
  };
}
