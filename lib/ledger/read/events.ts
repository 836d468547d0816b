import type { InValue } from "@libsql/client/sqlite3";
import { SbxError } from "../../base/error/mod.ts";
import { type Event, type EventFamily, familyOf } from "../../event/mod.ts";
import type { LedgerDecision, LedgerFinding, LedgerOutcome } from "../entry.ts";
import { DECISION, EVENTS_WITH_OUTCOMES, FAMILY } from "../views.ts";
import { withLedger } from "./open.ts";
import { selectText, type TextRow } from "./text.ts";

/** Default number of events of a page, and the most that a caller may request. */
export const PAGE_EVENTS = 100;
export const PAGE_EVENTS_MAX = 1000;
/** Characters of JSON after which a page ends early: a guest can create events of a megabyte. */
const PAGE_CHARS = 16 * 1024 * 1024;
/** Rows read at a time. */
const READ_ROWS = 50;

/** Filter of events. */
export interface EventFilter {
  /** `next_cursor` of an earlier page, or the sequence of the last event seen */
  cursor?: string;
  limit?: number;
  family?: EventFamily;
  /** blocked events only */
  denied?: boolean;
  /** events from this time on only, unix `ms` */
  since?: number;
}

/** Events blocked finally; the indexes of blocked rows name the candidates. */
const DENIED = `${DECISION} = 'block' AND entries.sequence IN (
  SELECT sequence FROM entries WHERE decision = 'block' AND sequence > ?1 UNION ALL
  SELECT sequence FROM outcomes JOIN entries USING (event_id) WHERE outcomes.decision = 'block')`;

/** Event in a list: with its response, its end, and its decision if it has one. */
export type LedgerEvent = Event & {
  decision?: string;
  rule_id?: string;
  outcome?: Omit<LedgerOutcome, "event_id" | "response" | "decision">;
};

/** One page, oldest first; the last page has no `next_cursor`. */
export interface EventPage {
  events: LedgerEvent[];
  next_cursor?: string;
}

/** Reads one page of a session's events, also while they are written. */
export async function readEvents(path: string, filter: EventFilter = {}): Promise<EventPage> {
  const limit = Math.min(filter.limit ?? PAGE_EVENTS, PAGE_EVENTS_MAX);
  const where = ["entries.sequence > ?1"];
  const args: InValue[] = [parseCursor(filter.cursor), READ_ROWS];
  if (filter.denied) where.push(DENIED);
  if (filter.family) where.push(`${FAMILY} = ?${args.push(filter.family)}`);
  if (filter.since !== undefined) {
    where.push(`event->>'$.common.timestamp_unix_ms' >= ?${args.push(filter.since)}`);
  }
  const rest = `FROM ${EVENTS_WITH_OUTCOMES} WHERE ${where.join(" AND ")} ORDER BY entries.sequence LIMIT ?2`;
  return await withLedger(path, async (client) => {
    const events: LedgerEvent[] = [];
    for (let chars = 0;;) {
      const rows = await selectText(client, LIST_COLUMNS, rest, args);
      for (const row of rows) {
        if (events.length === limit || chars >= PAGE_CHARS) {
          return { events, next_cursor: String(args[0]) };
        }
        chars += row.event!.length + (row.outcome?.length ?? 0);
        args[0] = Number(row.sequence);
        events.push(toLedgerEvent(row));
      }
      if (rows.length < READ_ROWS) return { events };
    }
  });
}

const LIST_COLUMNS = ["entries.sequence", "event", "entries.decision", "rule_id", "outcome"];

/** Reads one event with its decision record and its findings. @throws {SbxError} `event.not_found` */
export function readWhy(path: string, eventId: string): Promise<{
  event: Event;
  record?: LedgerDecision;
  findings: LedgerFinding[];
}> {
  return withLedger(path, async (client) => {
    const [row] = await selectText(
      client,
      ["event", "record", "outcome"],
      `FROM ${EVENTS_WITH_OUTCOMES} WHERE entries.event_id = ? LIMIT 1`,
      [eventId],
    );
    if (!row) {
      throw new SbxError("event.not_found", `the ledger has no event ${eventId}`, {
        hint: "sbx events lists the events of a session",
      });
    }
    const findings = await selectText(client, ["finding"], "FROM findings WHERE event_id = ?", [eventId]);
    const { event, outcome } = parseEvent(row.event!, row.outcome);
    const record = outcome?.decision ?? (row.record === null ? undefined : JSON.parse(row.record));
    return {
      event,
      ...(record && { record }),
      findings: findings.map(({ finding }) => JSON.parse(finding!)),
    };
  });
}

type StoredOutcome = LedgerOutcome & { number: number };

/**
 * Parses the columns of an event and of its outcome.
 *
 * @returns the event with the response of the outcome, and the outcome
 */
export function parseEvent(
  eventText: string,
  outcomeText: string | null,
): { event: Event; outcome?: StoredOutcome } {
  const event = JSON.parse(eventText) as Event;
  if (outcomeText === null) return { event };
  const outcome = JSON.parse(outcomeText) as StoredOutcome;
  const family = familyOf(event.common.event_type);
  if (outcome.response !== undefined && event[family]) {
    Object.assign(event[family], { response: outcome.response });
  }
  return { event, outcome };
}

function toLedgerEvent(row: TextRow): LedgerEvent {
  const { event, outcome } = parseEvent(row.event!, row.outcome);
  const { event_id: _, number: __, response: ___, decision: final, ...end } = outcome ??
    {} as Partial<StoredOutcome>;
  const decision = final?.decision ?? row.decision;
  const ruleId = final?.rule?.id ?? row.rule_id;
  return {
    ...event,
    ...(decision && { decision }),
    ...(ruleId && { rule_id: ruleId }),
    ...(Object.keys(end).length && { outcome: end }),
  };
}

function parseCursor(cursor = "0"): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw new SbxError("request.invalid", `invalid cursor "${cursor}"`, {
    hint: "use next_cursor of the page before",
  });
}
