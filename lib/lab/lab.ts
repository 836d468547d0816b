import { type DetectionIr, Matcher } from "../detection/mod.ts";
import { EVIDENCE_ROWS, refOf } from "../detection/replay/evidence.ts";
import { SESSION_CORPUS } from "../detection/replay/hunt.ts";
import type { Rule } from "../policy/mod.ts";
import { DetectionTrial } from "./detection.ts";
import type { LabEvent } from "./event.ts";
import { PolicyTrial } from "./policy.ts";
import type { LabReport } from "./report.ts";

export type { LabEvent };

/** A session that is over, or as far as it has come. */
export interface LabSession {
  id: string;
  events: AsyncIterable<LabEvent> | Iterable<LabEvent>;
}

/** What the candidates are held against. */
export interface LabBaseline {
  packs: readonly DetectionIr[];
  /** absent: what was decided then */
  rules?: readonly Rule[];
}

export interface LabOptions {
  sessions: AsyncIterable<LabSession> | Iterable<LabSession>;
  /** detections to try */
  packs: readonly DetectionIr[];
  /** rules to try, of every layer; the built-in defaults are added */
  rules?: readonly Rule[];
  baseline: LabBaseline;
  /** most rows of each list */
  limit?: number;
  signal?: AbortSignal;
  /** told of each session before it is read */
  onSession?(id: string): void;
}

/**
 * Runs detections and rules over recorded sessions and says what is other than before: backtest, hunt and the
 * evaluation of rules put together, nothing of its own underneath.
 *
 * @throws {SbxError} `detection.conflict`, `policy.invalid`; the signal's reason when it is aborted
 */
export async function runLab(options: LabOptions): Promise<LabReport> {
  const { sessions, packs, rules, baseline, limit = EVIDENCE_ROWS, signal, onSession } = options;
  const detections = new DetectionTrial(new Matcher(baseline.packs), new Matcher(packs), limit);
  const decisions = rules && new PolicyTrial(rules, baseline.rules, limit);
  let [session_count, event_count] = [0, 0];
  for await (const { id, events } of sessions) {
    signal?.throwIfAborted();
    onSession?.(id);
    session_count++;
    for await (const event of events) {
      signal?.throwIfAborted();
      event_count++;
      const ref = { ...refOf(event, SESSION_CORPUS), session_id: id };
      detections.run(event, ref);
      decisions?.run(event, ref);
    }
  }
  const found = detections.report();
  const policy = decisions?.report();
  return {
    schema: "sbx.lab.v1",
    ok: found.lost.total_matches === 0 && !policy?.blocked.total_matches,
    session_count,
    event_count,
    ...found,
    ...(policy && { policy }),
  };
}
