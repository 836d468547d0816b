import { withLedger } from "./open.ts";
import { selectText } from "./text.ts";

/** Rule of the finding about each gap (docs/concepts/activity.md). */
const RULE = "activity-gap";

/** Time of the last gap in the report of a guest's programs, in `ms` since 1970. */
export function readLastGap(path: string): Promise<number | undefined> {
  return withLedger(path, async (client) => {
    const [row] = await selectText(
      client,
      ["at"],
      `FROM (SELECT event->>'$.common.timestamp_unix_ms' AS at FROM findings JOIN entries USING (event_id)
         WHERE findings.rule_id = ? ORDER BY findings.rowid DESC LIMIT 1)`,
      [RULE],
    );
    return row === undefined ? undefined : Number(row.at);
  });
}
