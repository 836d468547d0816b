import { basename, dirname } from "node:path";
import type { FindingView, ListedFinding } from "../../client/api/mod.ts";
import { readFindingRows, readFindings } from "../../ledger/read/mod.ts";
import { subjectLine } from "../../policy/decision/mod.ts";
import { makerOf } from "./creator.ts";
import type { Sessions } from "./sessions.ts";

/** Findings whose events are read at once: an event may have a megabyte. */
const BATCH = 50;

/** Lists the findings of a session, each with the time and the subject of its event, and with the maker of the session. */
export async function listFindings(
  ledger: string,
  sessions: Pick<Sessions, "get">,
  limit?: number,
): Promise<ListedFinding[]> {
  const findings = await readFindings(ledger, { limit }) as unknown as ListedFinding[];
  const details = new Map<string, Omit<ListedFinding, keyof FindingView>>();
  for (let after = 0, rows = [], remaining = findings.length; remaining > 0; remaining -= rows.length) {
    rows = await readFindingRows(ledger, after, BATCH);
    if (rows.length === 0) break;
    for (const { finding, event } of rows) {
      const { timestamp_unix_ms, event_type } = event.common;
      details.set(finding.finding_id, { timestamp_unix_ms, event_type, subject: subjectLine(event) });
    }
    after = rows.at(-1)!.row;
  }
  if (findings.length === 0) return [];
  const entry = await sessions.get(basename(dirname(ledger))).catch(() => undefined);
  const made_by = makerOf(entry);
  return findings.map((finding) => ({
    ...finding,
    ...details.get(finding.finding_id),
    ...(made_by && { made_by }),
  }));
}
