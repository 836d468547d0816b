/** Costs of model calls of many sessions by day (docs/design/contracts/02-http.md §2, "Across sessions"). */
import { SbxError } from "../../../base/error/mod.ts";
import { type DayCosts, readCostsByDay, sumCosts } from "../../../ledger/read/mod.ts";
import { mayHave, type RecordedSession } from "./merge.ts";

/** Sums up the model calls of sessions by day and model. @param since unix `ms`; absent: all of them */
export async function costsAcross(
  sessions: readonly RecordedSession[],
  since?: number,
): Promise<{ days: DayCosts[]; unreadable: string[] }> {
  let days: DayCosts[] = [];
  const unreadable: string[] = [];
  for (const session of sessions) {
    if (!mayHave(session, { since })) continue;
    try {
      const found = await readCostsByDay(session.ledger, since);
      days = sumCosts(
        [...days, ...found],
        ({ day, provider, model }) => JSON.stringify([day, provider, model]),
      );
    } catch (error) {
      // A session without a boot has no ledger, and nothing that could be missing.
      if (!(error instanceof SbxError && error.code === "ledger.not_found")) unreadable.push(session.id);
    }
  }
  const isBefore = (a: DayCosts, b: DayCosts) =>
    a.day === b.day ? a.cost_micros > b.cost_micros : a.day < b.day;
  return { days: days.sort((a, b) => isBefore(a, b) ? -1 : 1), unreadable };
}
