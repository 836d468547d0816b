import type { Event } from "../event/mod.ts";
import type { LedgerFinding } from "./entry.ts";
import { reading, resolvedEvent } from "./read.ts";
import { selectText } from "./text.ts";

/** A finding with its event, and its place in the order in which findings were made. */
export interface FindingRow {
  row: number;
  finding: LedgerFinding;
  event: Event;
}

/** Findings behind row `after`, oldest first, at most `limit`; those whose event is not in the ledger are left out. */
export function readFindingRows(path: string, after: number, limit: number): Promise<FindingRow[]> {
  return reading(path, async (client) => {
    const rows = await selectText(
      client,
      ["row", "finding", "event", "outcome"],
      `FROM (SELECT rowid AS row, * FROM findings) AS numbered
         JOIN security_events USING (event_id) LEFT JOIN outcomes USING (event_id)
         WHERE numbered.row > ? ORDER BY numbered.row LIMIT ?`,
      [after, limit],
    );
    return rows.map(({ row, finding, event, outcome }) => ({
      row: Number(row),
      finding: JSON.parse(finding!),
      event: resolvedEvent(event!, outcome),
    }));
  });
}
