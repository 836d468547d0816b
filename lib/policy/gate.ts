/**
 * The path of every event, whatever its family: bytes → event → decision → ledger → effect.
 * `lib/session/gate` implements it.
 */
import type { Bill, CallUse, LaterUse } from "./budget/mod.ts";
import type { Event, EventCommon } from "../event/mod.ts";
import type { Ask } from "./ask/schema.ts";
import type { Decision, Evaluation } from "./decision/mod.ts";
import type { Refusal } from "./decision/decision.ts";

/**
 * The part of an event that its family's parser knows; the session adds who, when and
 * where. It never holds a secret.
 */
export type Draft = Omit<Event, "schema_version" | "common"> & {
  common:
    & Pick<EventCommon, "event_type" | "source_engine">
    /** absent: `inline_blockable`, `vm`, no labels */
    & Partial<Pick<EventCommon, "enforceability" | "actor" | "process" | "trace_id" | "labels">>;
  /** of a model call, for budgets; it is no part of the event */
  bill?: Bill;
};

/** The rules' answer to an event. */
export interface Verdict {
  readonly allowed: boolean;
  /** with the rewrites of the rules: act on this, not on the draft */
  readonly event: Event;
  readonly decision: Decision;
}

/**
 * One event on its way: decided once, reviewed at most once, and finished exactly once if it was allowed and
 * its family has responses (the end of a program is an event of its own). Its decision is never `ask`: the
 * person has answered by then. It measures its own times, from the decision on.
 */
export interface Passage extends Verdict {
  /** Notes that the first byte of the response is here. */
  markFirstByte(): void;
  /**
   * Counts bytes that the decision did not know, before they are sent.
   *
   * @param bytes all of them so far
   * @throws {SbxError} `policy.blocked`: a budget of bytes is used up
   */
  countSent(bytes: number): void;
  /** @throws {SbxError} `policy.blocked`: a finding holds the network back, so the rest is not sent */
  requireOpen(): void;
  /**
   * Evaluates the event again, with the response object of its family, before the guest gets that response.
   *
   * @returns the decision that blocks the response, `undefined` when it may pass
   */
  review(response: unknown): Decision | undefined;
  /**
   * Records the end of the event; a second call does nothing. Never throws: the event has happened, and a
   * failing ledger blocks the events that follow.
   */
  finish(outcome?: Outcome): void;
}

/** The end of an allowed event, as far as the ledger keeps it; it never holds a secret. */
export interface Outcome {
  /** the response object of the event's family */
  response?: unknown;
  /** why it ended early */
  error?: string;
  /** a block that came after the event was allowed */
  decision?: Decision;
  /** of a model call, for budgets; it is not recorded */
  use?: CallUse;
}

/** Decides on events and puts them into the ledger before their effect. */
export interface Gate {
  /**
   * Decides on an event, which is in the ledger by then. Settles at once unless a person is asked.
   *
   * @param signal denies the event while a person is asked
   * @param waits called when a person is asked
   * @param heldMs `ms` after which the event is refused while the person is still
   * asked, if it can be sent again
   * @throws {SbxError} `ledger.unavailable`: an event that cannot be recorded must not happen
   */
  decide(
    draft: Draft,
    signal?: AbortSignal,
    waits?: (ask: Ask) => void,
    heldMs?: number,
  ): Promise<Passage>;
  /**
   * True when a rule reads a part of events: a family (`model`) or a path (`http.request.body`). Bytes that
   * hide that part are then refused by a guard.
   */
  reads(part: string): boolean;
  /** True while a budget counts what model calls use. */
  readonly countsModels: boolean;
  /** True for an answer of a model whose fetch corrects a count. @param key host and id of the answer */
  awaitsUse(key: string): boolean;
  /** Counts a model call again by its answer, which was fetched later. */
  correctUse(use: LaterUse): void;
  /**
   * Evaluates without recording or asking; `ask` counts as not allowed.
   *
   * @param explain with findings of rules that only observe
   */
  preview(draft: Draft, explain?: boolean): Verdict & Pick<Evaluation, "findings" | "failures">;
  /** Blocks an event without asking the rules, and records that. @throws {SbxError} `ledger.unavailable` */
  refuse(draft: Draft, refusal: Refusal): Decision;
  /** Records an event that has happened already. @throws {SbxError} `ledger.unavailable` */
  observe(draft: Draft, outcome?: Outcome): Event;
}
