/** Reads findings of a ledger, and summaries of a session's security. */
import type { Event } from "../../event/mod.ts";
import { EVENTS_WITH_OUTCOMES, type LedgerDecision, type LedgerFinding } from "../schema.ts";
import { PAGE_EVENTS_MAX, parseCursor, parseEvent } from "./events.ts";
import { parseJson, selectText, type TextRow, withLedger } from "./open.ts";

/** Finding with its event. */
export interface FindingRow {
  /** place among the findings of the session, ascending */
  row: number;
  finding: LedgerFinding;
  event: Event;
  /** the last one on record; absent where no rule decided */
  decision?: LedgerDecision;
}

/** Reads the findings of a session, oldest first. */
export function readFindings(path: string, { limit = PAGE_EVENTS_MAX } = {}): Promise<LedgerFinding[]> {
  return withLedger(path, async (client) => {
    const rows = await selectText(client, ["finding"], "FROM findings ORDER BY rowid LIMIT ?", [limit]);
    return rows.map(({ finding }) => JSON.parse(finding!));
  });
}

/** Selects findings by their rows. */
export interface FindingFilter {
  /** row of the last finding seen */
  cursor?: string;
  limit?: number;
  /** `newest`: from the last one backwards */
  order?: "oldest" | "newest";
}

/** Reads one page of findings with their rows; the last page has no `next_cursor`. */
export function readFindingPage(
  path: string,
  { cursor, limit = PAGE_EVENTS_MAX, order }: FindingFilter,
): Promise<{ findings: Pick<FindingRow, "row" | "finding">[]; next_cursor?: string }> {
  const seen = cursor === undefined ? undefined : parseCursor(cursor);
  const where = seen === undefined ? "" : `WHERE numbered.row ${order === "newest" ? "<" : ">"} ?`;
  const rest = `FROM (SELECT rowid AS row, finding FROM findings) AS numbered ${where}
    ORDER BY numbered.row ${order === "newest" ? "DESC" : "ASC"} LIMIT ?`;
  return withLedger(path, async (client) => {
    const args = [...(seen === undefined ? [] : [seen]), limit + 1];
    const rows = await selectText(client, ["row", "finding"], rest, args);
    const findings = rows.slice(0, limit).map(({ row, finding }) => ({
      row: Number(row),
      finding: JSON.parse(finding!),
    }));
    return { findings, ...(rows.length > limit && { next_cursor: String(findings.at(-1)!.row) }) };
  });
}

/**
 * Reads at most `limit` findings after row `after` with their events, oldest first;
 * skips findings without an event.
 */
export function readFindingRows(path: string, after: number, limit: number): Promise<FindingRow[]> {
  return withLedger(path, async (client) => {
    const rows = await selectText(
      client,
      ["row", "finding", "event", "outcome", "record"],
      `FROM (SELECT rowid AS row, * FROM findings) AS numbered JOIN ${EVENTS_WITH_OUTCOMES}
         WHERE entries.event_id = numbered.event_id AND numbered.row > ? ORDER BY numbered.row LIMIT ?`,
      [after, limit],
    );
    return rows.map(toRow);
  });
}

function toRow({ row, finding, event: text, outcome: end, record }: TextRow): FindingRow {
  const { event, outcome } = parseEvent(text!, end);
  const decision = outcome?.decision ?? parseJson<LedgerDecision>(record);
  return { row: Number(row), finding: JSON.parse(finding!), event, ...(decision && { decision }) };
}

/** Reads findings by their ids, with their events. */
export function readFindingRowsOf(path: string, ids: readonly string[]): Promise<FindingRow[]> {
  return withLedger(path, async (client) => {
    const rows: FindingRow[] = [];
    for (const id of ids) {
      const found = await selectText(
        client,
        ["row", "finding", "event", "outcome", "record"],
        `FROM (SELECT rowid AS row, * FROM findings) AS numbered JOIN ${EVENTS_WITH_OUTCOMES}
           WHERE entries.event_id = numbered.event_id AND numbered.finding_id = ?`,
        [id],
      );
      rows.push(...found.map(toRow));
    }
    return rows;
  });
}

/** Findings of one rule in a session. */
export interface FindingCount {
  rule_id: string;
  pack_id: string;
  match_count: number;
  last_matched_event: string | null;
  last_matched_unix_ms: number | null;
}

/** Counts the findings of a session by rule. */
export function countFindings(path: string): Promise<FindingCount[]> {
  return withLedger(path, async (client) => {
    // SQLite takes the event of the row with the greatest rowid.
    const counted =
      "(SELECT rule_id, pack_id, count(*) AS total, max(rowid) AS last, event_id FROM findings " +
      "GROUP BY rule_id, pack_id) AS counted";
    const rows = await selectText(
      client,
      ["counted.rule_id", "pack_id", "total", "counted.event_id", "at"],
      `FROM (SELECT counted.*, (SELECT event->>'$.common.timestamp_unix_ms' FROM entries
         WHERE entries.event_id = counted.event_id LIMIT 1) AS at FROM ${counted}) AS counted`,
    );
    return rows.map(({ rule_id, pack_id, total, event_id, at }) => ({
      rule_id: rule_id ?? "",
      pack_id: pack_id ?? "",
      match_count: Number(total),
      last_matched_event: event_id,
      last_matched_unix_ms: at === null ? null : Number(at),
    }));
  });
}

/** An event that was refused. */
export interface DeniedEvent {
  sequence: number;
  event_id: string;
  event_type: string;
  rule_id: string | null;
}

/** The latest security findings and denials of a session, newest first. */
export interface LatestSecurity {
  findings: LedgerFinding[];
  denied: DeniedEvent[];
}

/** Reads the last findings of a session, and the last events that a rule or a guard refused at once. */
export function readLatest(path: string, limit: number): Promise<LatestSecurity> {
  return withLedger(path, async (client) => {
    const findings = await selectText(client, ["finding"], "FROM findings ORDER BY rowid DESC LIMIT ?", [
      limit,
    ]);
    const denied = await selectText(
      client,
      ["sequence", "event_id", "event_type", "rule_id"],
      "FROM entries WHERE decision = 'block' ORDER BY sequence DESC LIMIT ?",
      [limit],
    );
    return {
      findings: findings.flatMap(({ finding }) => parseJson<LedgerFinding>(finding) ?? []),
      denied: denied.map(({ sequence, event_id, event_type, rule_id }) => ({
        sequence: Number(sequence),
        event_id: event_id ?? "",
        event_type: event_type ?? "",
        rule_id,
      })),
    };
  });
}

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
