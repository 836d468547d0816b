import { reading } from "./read.ts";
import { selectText } from "./text.ts";

/** The ask about an event, as it is kept once it is over; `undefined` where nobody was asked, or it still waits. */
export function readApproval<T>(path: string, eventId: string): Promise<T | undefined> {
  return reading(path, async (client) => {
    const [row] = await selectText(client, ["record"], "FROM approvals WHERE event_id = ? LIMIT 1", [
      eventId,
    ]);
    return row && JSON.parse(row.record!);
  });
}
