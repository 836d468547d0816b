import type { EvidenceResult } from "../../../lib/client/api/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { table } from "../output.ts";

/** Formats evidence-diverse rows, with the number of matches they represent. */
export function formatEvidence(
  { total_matches, unique_evidence_matches, truncated, rows }: EvidenceResult,
): string {
  if (rows.length === 0) return "no matches";
  const cells = rows.map(({ event_ref, rule_id, matched_fields, outcome }) => [
    event_ref.event_id,
    rule_id,
    outcome.outcome,
    matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`).join(", ") ||
    (outcome.message ?? ""),
  ]);
  const total = `${
    count(total_matches, "match", "matches")
  }, ${unique_evidence_matches} with different evidence`;
  return `${table(["EVENT", "RULE", "OUTCOME", "EVIDENCE"], cells)}\n${total}${
    truncated ? "; truncated" : ""
  }`;
}
