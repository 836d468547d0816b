import type { FindingView, ListedFinding } from "../api/mod.ts";
import { readFindingRows } from "../ledger/findings.ts";
import { readFindings } from "../ledger/mod.ts";
import { subjectLine } from "../policy/engine/subject.ts";

/** Findings whose events are read at a time: an event may have a megabyte. */
const FINDINGS_READ = 50;

/** Findings of a session, each with when and of what its event is. */
export async function listedFindings(ledger: string, limit?: number): Promise<ListedFinding[]> {
  const findings = await readFindings(ledger, { limit }) as unknown as ListedFinding[];
  const known = new Map<string, Omit<ListedFinding, keyof FindingView>>();
  for (let after = 0, rows = [], left = findings.length; left > 0; left -= rows.length) {
    rows = await readFindingRows(ledger, after, FINDINGS_READ);
    if (rows.length === 0) break;
    for (const { finding, event } of rows) {
      const { timestamp_unix_ms, event_type } = event.common;
      known.set(finding.finding_id, { timestamp_unix_ms, event_type, subject: subjectLine(event) });
    }
    after = rows.at(-1)!.row;
  }
  return findings.map((finding) => ({ ...finding, ...known.get(finding.finding_id) }));
}
