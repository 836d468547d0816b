import { type DetectionIr, Matcher } from "../detection/mod.ts";
import { EVIDENCE_ROWS, refOf, SESSION_CORPUS } from "../detection/replay/mod.ts";
import type { Rule } from "../policy/mod.ts";
import { DetectionTrial } from "./detection.ts";
import type { LabEvent } from "./event.ts";
import { PolicyTrial } from "./policy.ts";
import type { LabReport } from "./report.ts";

export type { LabEvent };

/** Recorded session, ended or still running. */
export interface LabSession {
  id: string;
  events: AsyncIterable<LabEvent> | Iterable<LabEvent>;
}

/** Reference that candidates are compared with. */
export interface LabBaseline {
  packs: readonly DetectionIr[];
  /** absent: the recorded decisions */
  rules?: readonly Rule[];
}

export interface LabOptions {
  sessions: AsyncIterable<LabSession> | Iterable<LabSession>;
  /** candidate detections */
  packs: readonly DetectionIr[];
  /** candidate rules of every layer; the built-in defaults are added */
  rules?: readonly Rule[];
  baseline: LabBaseline;
  /** maximum number of rows per list */
  limit?: number;
  signal?: AbortSignal;
  /** called for each session before it is read */
  onSession?(id: string): void;
}

/**
 * Runs candidate detections and rules over recorded sessions and reports the differences from the baseline, with the
 * same matcher and policy engine as live VMs.
 *
 * @throws {SbxError} `detection.conflict`: two rules have the same id; `policy.invalid`; the signal's reason, when aborted
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
  const detectionReport = detections.report();
  const policy = decisions?.report();
  return {
    schema: "sbx.lab.v1",
    ok: detectionReport.lost.total_matches === 0 && !policy?.blocked.total_matches,
    session_count,
    event_count,
    ...detectionReport,
    ...(policy && { policy }),
  };
}
