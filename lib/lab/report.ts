import type { EvidenceReport } from "../detection/replay/mod.ts";

/** Detection rule in baseline and candidate. */
export interface LabRule {
  rule_id: string;
  pack_id: string;
  title: string;
  /** number of events it matches in the baseline and in the candidate */
  baseline: number;
  candidate: number;
  /** number of events that only the candidate, or only the baseline, matches */
  gained: number;
  lost: number;
}

/** Number of events whose decision changed. */
export interface DecisionChange {
  from: string;
  to: string;
  count: number;
}

/** Effect of the candidate rules. */
export interface LabPolicy {
  /** number of events that policy could have blocked */
  decided: number;
  /** number of events that a guard refused, which no rule can change */
  guarded: number;
  changes: DecisionChange[];
  /** calls that were allowed, and would be blocked or need approval */
  blocked: EvidenceReport;
  /** calls that were not allowed, and would be */
  released: EvidenceReport;
  /** first failures of rules on events */
  failures: { rule_id: string; event_id: string; message: string }[];
}

export interface LabReport {
  schema: "sbx.lab.v1";
  /** true if no match is lost and no allowed call would be blocked */
  ok: boolean;
  session_count: number;
  event_count: number;
  /** detections that gained or lost matches, most changes first */
  rules: LabRule[];
  gained: EvidenceReport;
  lost: EvidenceReport;
  /** absent without candidate rules */
  policy?: LabPolicy;
}
