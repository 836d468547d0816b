/** Earlier events of a session for its rules, read from its record when its process starts. */
import { log } from "../base/log/mod.ts";
import { History, HISTORY_WINDOW_MAX_MS, type Policy } from "../policy/mod.ts";
import type { Ledger } from "../ledger/mod.ts";

/** The history of a session. One that cannot be read is unknown: rules that ask for it block. */
export async function historyOf(
  { counters }: Pick<Policy, "counters">,
  ledger: Pick<Ledger, "sequence" | "flush">,
  path: string,
  now = Date.now(),
): Promise<History> {
  const history = new History(counters);
  if (counters.length === 0 || ledger.sequence === 0) return history;
  try {
    await ledger.flush();
    // Loads the database, which this thread needs for nothing else.
    const { readEvents } = await import("../ledger/read/mod.ts");
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const page = await readEvents(path, { since: now - HISTORY_WINDOW_MAX_MS, ...(cursor && { cursor }) });
      for (const event of page.events) {
        // Without a decision it was only observed.
        if (event.decision === undefined || event.decision === "allow") history.record(event);
      }
      cursor = page.next_cursor;
    }
    return history;
  } catch (error) {
    log.error("the history of the session cannot be read from its record:", error);
    return new History(counters, now);
  }
}
