/** Asks of many sessions that were answered or expired, newest first. */
import { PAST_ASKS_MAX, type PastAsks } from "../../../client/api/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { readApprovals } from "../../../ledger/read/mod.ts";
import type { AskRecord } from "../../../policy/mod.ts";
import { mayHave, type RecordedSession } from "./merge.ts";

interface AskConditions {
  since?: number;
  until?: number;
  status?: string;
}

/** @param limit default: the most */
export async function asksAcross(
  sessions: readonly RecordedSession[],
  { status, ...period }: AskConditions,
  limit = PAST_ASKS_MAX,
): Promise<PastAsks> {
  const asks: PastAsks["asks"] = [];
  const unreadable: string[] = [];
  let truncated = false;
  for (const session of sessions) {
    if (!mayHave(session, period)) continue;
    try {
      const records = await readApprovals<AskRecord>(session.ledger, {
        ...period,
        status,
        limit: limit + 1,
        newest: true,
      });
      asks.push(...records.map((record) => ({ ...record, vm: session.name })));
    } catch (error) {
      // A session without a boot has no ledger, and nothing that could be missing.
      if (!(error instanceof SbxError && error.code === "ledger.not_found")) unreadable.push(session.id);
    }
    // Memory for one more session than is shown, however many there are.
    if (asks.length > limit) {
      truncated = true;
      asks.sort((a, b) => b.resolved_at.localeCompare(a.resolved_at)).length = limit;
    }
  }
  asks.sort((a, b) => b.resolved_at.localeCompare(a.resolved_at));
  return { asks, truncated, unreadable };
}
