import type { Event, Finding } from "../event/mod.ts";
import type { Ask, Decision } from "../policy/mod.ts";

/** News of a session for its watchers. */
export type SessionNotice =
  | { type: "security-event"; payload: { event: Event; decision?: Decision } }
  | { type: "finding"; payload: Finding }
  | { type: "ask"; payload: Ask };
