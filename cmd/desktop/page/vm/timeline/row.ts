import type { RecordedEvent } from "../../../api/routes.ts";
import { subjectOf } from "../../../part/subject.ts";
import type { LiveDecision } from "../../../store/live.ts";

/** What one line of a timeline shows. */
export interface Row {
  id: string;
  sequence: number;
  time: number;
  family: string;
  type: string;
  subject: string;
  decision: string;
  rule: string;
  /** the text that a search matches, in lower case; of live events alone */
  all?: string;
}

/** Conditions of a timeline; empty texts are no conditions. */
export interface Conditions {
  family: string;
  decision: string;
  grep: string;
}

/** @param decision of a live event, which has none of its own */
export function rowOf(event: RecordedEvent, decision?: LiveDecision): Row {
  const { event_id, event_type, sequence, timestamp_unix_ms } = event.common;
  return {
    id: event_id,
    sequence,
    time: timestamp_unix_ms,
    family: event_type.split(".")[0],
    type: event_type,
    subject: subjectOf(event),
    decision: decision?.decision ?? event.decision ?? "",
    rule: decision?.rule.id ?? event.rule_id ?? "",
    ...(decision && { all: JSON.stringify(event).toLowerCase() }),
  };
}

export function matches(row: Row, { family, decision, grep }: Conditions): boolean {
  return (family === "" || row.family === family) && (decision === "" || row.decision === decision) &&
    (grep === "" || (row.all ?? "").includes(grep.toLowerCase()));
}
