import type { EvidenceResult } from "../../lib/api/detection.ts";
import { table } from "./output.ts";

/** Evidence-diverse rows, and how many they stand for. */
export function evidenceTable(
  { total_matches, unique_evidence_matches, truncated, rows }: EvidenceResult,
): string {
  if (rows.length === 0) return "nothing matches";
  const cells = rows.map(({ event_ref, rule_id, matched_fields, outcome }) => [
    event_ref.event_id,
    rule_id,
    outcome.outcome,
    matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`).join(", ") ||
    (outcome.message ?? ""),
  ]);
  const sum = `${total_matches} ${
    total_matches === 1 ? "match" : "matches"
  }, ${unique_evidence_matches} of them different${truncated ? "; the first are shown" : ""}`;
  return `${table(["EVENT", "RULE", "OUTCOME", "EVIDENCE"], cells)}\n${sum}`;
}
