/** Reports of candidates tried on recorded sessions, for `sbx lab` and `sbx fleet simulate`. */
import { count } from "../../../lib/base/text/mod.ts";
import type { LabReport } from "../../../lib/lab/mod.ts";
import { formatEvidence } from "../record/evidence.ts";
import { table } from "../output.ts";

/** Reads candidate rules. @param rules, corp their files */
export async function readCandidates(rules: string | undefined, corp: string | undefined) {
  const { readRules } = await import("../../../lib/policy/author/mod.ts");
  return [...(rules ? await readRules(rules) : []), ...(corp ? await readRules(corp, ["corp"]) : [])];
}

/** The effects of candidates, for people. */
export function formatReport({ session_count, event_count, rules, gained, lost, policy }: LabReport): string {
  return [
    `${count(event_count, "event")} of ${count(session_count, "session")}`,
    formatMatches(rules),
    ...formatSection("gained", gained),
    ...formatSection("LOST", lost),
    ...policy ? formatPolicy(policy) : [],
  ].join("\n\n");
}

function formatMatches(rules: LabReport["rules"]): string {
  if (rules.length === 0) return "no change in matches";
  const rows = rules.map(({ rule_id, baseline, candidate, gained, lost }) =>
    [rule_id, baseline, candidate, `+${gained}`, `-${lost}`].map(String)
  );
  return table(["RULE", "BEFORE", "NOW", "GAINED", "LOST"], rows);
}

function formatPolicy(
  { changes, guarded, blocked, released, failures }: NonNullable<LabReport["policy"]>,
): string[] {
  const rows = changes.map(({ from, to, count }) => [from, to, String(count)]);
  return [
    rows.length ? table(["RECORDED DECISION", "NEW DECISION", "EVENTS"], rows) : "no change in decisions",
    ...guarded ? [`${count(guarded, "event")} refused by a guard, whatever the rules`] : [],
    ...formatSection("NEWLY BLOCKED", blocked),
    ...formatSection("newly allowed", released),
    ...failures.map(({ rule_id, event_id, message }) => `${rule_id} failed on ${event_id}: ${message}`),
  ];
}

/** Evidence under its title; empty without evidence. */
function formatSection(title: string, evidence: LabReport["gained"]): string[] {
  return evidence.rows.length ? [`${title}:\n${formatEvidence(evidence)}`] : [];
}
