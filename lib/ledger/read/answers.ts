/** Reads the answers of a session to its asks, and the bytes that its streams sent. */
import { parseJson, selectText, withLedger } from "./open.ts";

interface ApprovalFilter {
  /** unix `ms`, of the ask */
  since?: number;
  /** unix `ms` */
  until?: number;
  status?: string;
  limit: number;
  /** newest first */
  newest?: boolean;
}

/**
 * From this moment on, in unix `ms`, dates have longer years, and are no texts in
 * order; later ones are none at all.
 */
const YEAR_10000 = Date.UTC(10_000, 0);
/** Text behind each date. */
const LAST = "~";

/**
 * The asks of a session that were answered or expired, in the order of their ends,
 * oldest first unless asked otherwise.
 */
export function readApprovals<T>(
  path: string,
  { since, until, status, limit, newest = false }: ApprovalFilter,
): Promise<T[]> {
  const iso = (ms: number) => ms < YEAR_10000 ? new Date(ms).toISOString() : LAST;
  return withLedger(path, async (client) => {
    const rows = await selectText(
      client,
      ["record"],
      `FROM approvals WHERE record->>'$.created_at' >= ?1 AND record->>'$.created_at' < ?2
        AND (?3 = '' OR record->>'$.status' = ?3) ORDER BY rowid ${newest ? "DESC" : "ASC"} LIMIT ?4`,
      [since === undefined ? "" : iso(since), until === undefined ? LAST : iso(until), status ?? "", limit],
    );
    return rows.flatMap(({ record }) => parseJson<T>(record) ?? []);
  });
}

/** Events whose later bytes are read: a guest makes as many as it likes. */
const STREAMS_MAX = 100_000;

/**
 * `bytes` that went out after the decision on an event, by event, where a budget counts
 * them: also of events that go on.
 */
export function readSentLater(path: string): Promise<Map<string, number>> {
  return withLedger(path, async (client) => {
    const rows = await selectText(
      client,
      ["event_id", "bytes"],
      `FROM (SELECT record->>'$.event_id' AS event_id, record->>'$.bytes_out' AS bytes, max(rowid) AS latest
         FROM statements WHERE kind = 'spending' AND record->>'$.bytes_out' IS NOT NULL GROUP BY 1 LIMIT ?)`,
      [STREAMS_MAX],
    );
    return new Map(rows.map(({ event_id, bytes }) => [event_id ?? "", Number(bytes)]));
  });
}
