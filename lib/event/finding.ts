/** A finding of a detection or a rule about one event (docs/design/contracts/06-detection.md §6). */
export interface Finding {
  /** `finding-<event_id>-<rule_id>` */
  finding_id: string;
  event_id: string;
  rule_id: string;
  /** pack of the detection; `policy.<layer>` or `policy.failure` of a rule; `sbx.builtin` */
  pack_id: string;
  title: string;
  severity: "info" | "low" | "medium" | "high" | "critical";
  confidence: "low" | "medium" | "high";
  tags: string[];
}
