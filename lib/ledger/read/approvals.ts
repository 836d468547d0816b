import { withLedger } from "./open.ts";
import { selectText } from "./text.ts";

/** Reads the resolved ask of an event; `undefined` if it has no ask, or the ask still waits. */
export function readApproval<T>(path: string, eventId: string): Promise<T | undefined> {
  return withLedger(path, async (client) => {
    const [row] = await selectText(client, ["record"], "FROM approvals WHERE event_id = ? LIMIT 1", [
      eventId,
    ]);
    return row && JSON.parse(row.record!);
  });
}
