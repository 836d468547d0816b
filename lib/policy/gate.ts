/** The one path of all six families: bytes → event → decision → effect → ledger. A session implements it. */
import type { Event, EventCommon } from "../event/mod.ts";
import type { Decision } from "./engine/decision.ts";

/** What a family knows of an event; the session adds who, when and where. It never holds a secret. */
export type Draft = Omit<Event, "schema_version" | "common"> & {
  common:
    & Pick<EventCommon, "event_type" | "source_engine">
    /** absent: `inline_blockable`, `vm`, no labels */
    & Partial<Pick<EventCommon, "enforceability" | "actor" | "process" | "trace_id" | "labels">>;
};

/** What became of an event that wanted to happen. */
export interface Verdict {
  allowed: boolean;
  /** what is to be done, with the rewrites of the rules: act on this, not on the draft */
  event: Event;
  /** never `ask`: whoever asked has waited for the answer */
  decision: Decision;
}

/** How an event that was let go ended, as far as it is worth keeping; it holds no secret either. */
export interface Outcome {
  /** the response object of the event's family */
  response?: unknown;
  /** milliseconds from the decision to the first byte of the answer, and to its end */
  first_byte_ms?: number;
  duration_ms?: number;
  /** what broke it off */
  error?: string;
  /** what refused it after all, when that came after it was let go */
  decision?: Decision;
}

/** A refusal by code that no rule can undo: a request that cannot be read safely, a name that does not fit. */
export interface Refusal {
  /** `guard-<what>`, as the rule of the decision record */
  id: string;
  reason: string;
  /** what would make it pass */
  remedy?: string;
}

/** Decides on events and puts them into the ledger before their effect. */
export interface Gate {
  /**
   * Decides on an event: at once, unless a person is asked. It is in the ledger when the verdict is there.
   *
   * @param signal ends the waiting with a denial
   * @throws {SbxError} `ledger.unavailable`: what cannot be recorded must not happen
   */
  decide(draft: Draft, signal?: AbortSignal): Verdict | Promise<Verdict>;
  /** What the rules would say and rewrite now; nothing is recorded, nobody is asked (`ask` counts as not allowed). */
  preview(draft: Draft): Verdict;
  /**
   * Looks again at an event that was let go, now with its response in it, before the guest gets that: only a block
   * counts, and it is recorded with the event.
   */
  review(event: Event): Decision;
  /** Refuses an event without asking the rules, and records that. @throws {SbxError} `ledger.unavailable` */
  refuse(draft: Draft, refusal: Refusal): Verdict;
  /** Records an event that has happened and that nothing could stop. @throws {SbxError} `ledger.unavailable` */
  observe(draft: Draft): Event;
  /** Records how an event ended. Never throws: what happened cannot be undone, and a failing ledger stops what comes next. */
  finish(event: Event, outcome: Outcome): void;
}
