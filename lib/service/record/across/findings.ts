/** Findings of many sessions, oldest first. */
import type { AcrossFindings, ListedFinding } from "../../../client/api/mod.ts";
import { SEVERITIES } from "../../../event/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { mayHave, type RecordedSession } from "./merge.ts";

/** Most findings of an answer (docs/design/contracts/14-limits.md §14). */
export const FINDINGS_MAX = 10_000;

export interface FindingConditions {
  since?: number;
  until?: number;
  /** this one and the ones above */
  severity?: string;
  /** outcome of the event */
  decision?: string;
}

/** @param list findings of one ledger, oldest first */
export async function findingsAcross(
  sessions: readonly RecordedSession[],
  conditions: FindingConditions,
  list: (ledger: string, limit: number) => Promise<ListedFinding[]>,
): Promise<AcrossFindings> {
  const found: AcrossFindings["findings"] = [];
  const unreadable: string[] = [];
  let truncated = false;
  for (const session of sessions) {
    if (!mayHave(session, conditions)) continue;
    if (found.length === FINDINGS_MAX) {
      truncated = true;
      break;
    }
    try {
      const findings = await list(session.ledger, FINDINGS_MAX);
      const passed = findings.filter((finding) => passes(finding, conditions));
      const room = FINDINGS_MAX - found.length;
      truncated ||= findings.length === FINDINGS_MAX || passed.length > room;
      found.push(...passed.slice(0, room).map((finding) => ({ ...finding, session_id: session.id })));
    } catch (error) {
      if (!(error instanceof SbxError && error.code === "ledger.not_found")) unreadable.push(session.id);
    }
  }
  const time = ({ timestamp_unix_ms = 0 }: ListedFinding) => timestamp_unix_ms;
  return { findings: found.toSorted((a, b) => time(a) - time(b)), truncated, unreadable };
}

function passes(finding: ListedFinding, { since, until, severity, decision }: FindingConditions): boolean {
  const at = finding.timestamp_unix_ms ?? 0;
  const rank = (word: string) => (SEVERITIES as readonly string[]).indexOf(word);
  return (since === undefined || at >= since) && (until === undefined || at < until) &&
    (decision === undefined || finding.decision?.outcome === decision) &&
    (severity === undefined || rank(finding.severity) >= rank(severity));
}
