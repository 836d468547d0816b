import type { DetectionIr } from "../../detection/mod.ts";
import type { Event, Finding } from "../../event/mod.ts";
import type { Ask, Decision, Policy } from "../../policy/mod.ts";
import type { ExportRoutes } from "./detector.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "../../ledger/mod.ts";

/** The parts that a gate is built from. */
export interface GateOptions {
  /** the session, as its events name it */
  session: {
    id: string;
    profile_id: string;
    profile_revision: string;
    /** user of the host whose VM it is */
    user_id?: string;
    /** labels of every event */
    labels?: Record<string, string>;
  };
  policy: Policy;
  detections: readonly DetectionIr[];
  exportRoutes?: ExportRoutes;
  recorder: Recorder;
  tell(notice: SessionNotice): void;
  /** work to wait for before an allowed event happens; never rejects */
  before?(event: Event): Promise<void> | undefined;
  /** an allowed event has ended, with its response if it had one */
  ended?(event: Event, response: unknown): void;
  /** replaces secrets by refs in all texts of a value, also split ones; the same value if it has none */
  scrubValue<T>(value: T): T;
}

/** Terms that accompany rules. */
export interface RuleTerms {
  exportRoutes?: ExportRoutes;
  /** absent: as before */
  profileRevision?: string;
}

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

/** The record that a gate writes; the session's ledger is one. */
export interface Recorder {
  /**
   * Records an event with its decision and findings.
   *
   * @throws {SbxError} `ledger.unavailable` when an earlier record could not be written: fail closed
   */
  append(entry: LedgerEntry): void;
  /** Records the end of an event. @throws {SbxError} `ledger.unavailable` */
  end(outcome: LedgerOutcome): void;
  /** Records rows without a new event. @throws {SbxError} `ledger.unavailable` */
  add(extra: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] }): void;
  /** @throws {SbxError} `ledger.unavailable` while records cannot be written */
  requireWritable(): void;
}
