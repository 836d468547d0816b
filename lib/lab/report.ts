import type { EvidenceReport } from "../detection/replay/evidence.ts";

/** A detection, before and after. */
export interface LabRule {
  rule_id: string;
  pack_id: string;
  title: string;
  /** events that it matched before, and that it matches now */
  baseline: number;
  candidate: number;
  /** events that only one of the two matches */
  gained: number;
  lost: number;
}

/** Events whose decision is another one. */
export interface DecisionChange {
  from: string;
  to: string;
  count: number;
}

/** What rules would have decided. */
export interface LabPolicy {
  /** events that something could have stopped */
  decided: number;
  changes: DecisionChange[];
  /** calls that went through and would not have, or not without a person */
  blocked: EvidenceReport;
  /** calls that did not go through and would have */
  released: EvidenceReport;
  /** rules that failed on an event, the first of them */
  failures: { rule_id: string; event_id: string; message: string }[];
}

export interface LabReport {
  schema: "sbx.lab.v1";
  /** nothing is lost, and no call that went through would be stopped */
  ok: boolean;
  session_count: number;
  event_count: number;
  /** detections that differ between the two, the most different first */
  rules: LabRule[];
  gained: EvidenceReport;
  lost: EvidenceReport;
  /** absent when no rules were given */
  policy?: LabPolicy;
}
