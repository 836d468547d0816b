import type { DetectionFinding } from "../detection/mod.ts";
import type { Event } from "../event/mod.ts";
import type { Ask, Decision, PolicyFinding } from "../policy/mod.ts";

/** A finding of policy or of a detection. */
export type Finding = PolicyFinding | DetectionFinding;

/** News of a session for its watchers. */
export type SessionNotice =
  | { type: "security-event"; payload: { event: Event; decision?: Decision } }
  | { type: "finding"; payload: Finding }
  | { type: "ask"; payload: Ask };
