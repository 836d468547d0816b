import type { Client, InValue } from "@libsql/client/sqlite3";
import { SbxError } from "../base/error/mod.ts";
import { type Event, type EventFamily, familyOf } from "../event/mod.ts";
import type { LedgerDecision, LedgerFinding, LedgerOutcome } from "./entry.ts";
import { ledgerError } from "./failure.ts";
import { openDatabase } from "./open.ts";
import { selectText, type TextRow } from "./text.ts";
import { DECISION, ENDED, FAMILY } from "./views.ts";

/** Events of one page unless the caller asks for fewer, and the most that it may ask for. */
export const PAGE_EVENTS = 100;
export const PAGE_EVENTS_MAX = 1000;
/** Characters of JSON after which a page ends early: a guest can make events of a megabyte. */
const PAGE_CHARS = 16 * 1024 * 1024;
/** Rows read at a time. */
const READ_ROWS = 50;

/** Which events are wanted. */
export interface EventFilter {
  /** what an earlier page answered as `next_cursor`, or the sequence of the last event seen */
  cursor?: string;
  limit?: number;
  family?: EventFamily;
  /** only those that were blocked */
  denied?: boolean;
  /** only those from this time on, unix milliseconds */
  since?: number;
}

/** Those that an index names, and that nothing later let go. */
const DENIED = `${DECISION} = 'block' AND entries.sequence IN (
  SELECT sequence FROM entries WHERE decision = 'block' AND sequence > ?1 UNION ALL
  SELECT sequence FROM outcomes JOIN entries USING (event_id) WHERE outcomes.decision = 'block')`;

/** An event as it is listed: with its response, how it ended, and what was decided, when something was. */
export type LedgerEvent = Event & {
  decision?: string;
  rule_id?: string;
  outcome?: Omit<LedgerOutcome, "event_id" | "response" | "decision">;
};

/** One page, oldest first; `next_cursor` is absent at the end. */
export interface EventPage {
  events: LedgerEvent[];
  next_cursor?: string;
}

/** Reads one page of a session's events, also while they are being written. */
export async function readEvents(path: string, filter: EventFilter = {}): Promise<EventPage> {
  const limit = Math.min(filter.limit ?? PAGE_EVENTS, PAGE_EVENTS_MAX);
  const where = ["entries.sequence > ?1"];
  const args: InValue[] = [cursorOf(filter.cursor), READ_ROWS];
  if (filter.denied) where.push(DENIED);
  if (filter.family) where.push(`${FAMILY} = ?${args.push(filter.family)}`);
  if (filter.since !== undefined) {
    where.push(`event->>'$.common.timestamp_unix_ms' >= ?${args.push(filter.since)}`);
  }
  const rest = `FROM ${ENDED} WHERE ${where.join(" AND ")} ORDER BY entries.sequence LIMIT ?2`;
  return await reading(path, async (client) => {
    const events: LedgerEvent[] = [];
    for (let chars = 0;;) {
      const rows = await selectText(client, LISTED, rest, args);
      for (const row of rows) {
        if (events.length === limit || chars >= PAGE_CHARS) {
          return { events, next_cursor: String(args[0]) };
        }
        chars += row.event!.length + (row.outcome?.length ?? 0);
        args[0] = Number(row.sequence);
        events.push(listed(row));
      }
      if (rows.length < READ_ROWS) return { events };
    }
  });
}

const LISTED = ["entries.sequence", "event", "entries.decision", "rule_id", "outcome"];

/** The decision record of one event, its event and its findings. @throws SbxError `event.not_found` */
export function readWhy(path: string, eventId: string): Promise<{
  event: Event;
  record?: LedgerDecision;
  findings: LedgerFinding[];
}> {
  return reading(path, async (client) => {
    const [found] = await selectText(
      client,
      ["event", "record", "outcome"],
      `FROM ${ENDED} WHERE entries.event_id = ? LIMIT 1`,
      [eventId],
    );
    if (!found) {
      throw new SbxError("event.not_found", `the ledger has no event ${eventId}`, {
        hint: "sbx events lists those of a session",
      });
    }
    const findings = await selectText(client, ["finding"], "FROM findings WHERE event_id = ?", [eventId]);
    const { event, outcome } = resolved(found.event!, found.outcome);
    const record = outcome?.decision ?? (found.record === null ? undefined : JSON.parse(found.record));
    return {
      event,
      ...(record && { record }),
      findings: findings.map(({ finding }) => JSON.parse(finding!)),
    };
  });
}

/** Findings of a session, in the order in which they were made. */
export function readFindings(path: string, { limit = PAGE_EVENTS_MAX } = {}): Promise<LedgerFinding[]> {
  return reading(path, async (client) => {
    const rows = await selectText(client, ["finding"], "FROM findings ORDER BY rowid LIMIT ?", [limit]);
    return rows.map(({ finding }) => JSON.parse(finding!));
  });
}

/** Runs `read` on a client that is closed afterwards; failures become ours. */
export async function reading<T>(path: string, read: (client: Client) => Promise<T>): Promise<T> {
  const client = openDatabase(path);
  try {
    return await read(client);
  } catch (error) {
    if (error instanceof SyntaxError) throw ledgerError({ code: "SQLITE_CORRUPT", cause: error }, path);
    throw ledgerError(error, path, "read");
  } finally {
    client.close();
  }
}

function listed(row: TextRow): LedgerEvent {
  const { event, outcome } = resolved(row.event!, row.outcome);
  const { event_id: _, number: __, response: ___, decision: later, ...rest } = outcome ?? {};
  const decision = later?.decision ?? row.decision;
  const ruleId = later?.rule?.id ?? row.rule_id;
  return {
    ...event,
    ...(decision && { decision }),
    ...(ruleId && { rule_id: ruleId }),
    ...(Object.keys(rest).length && { outcome: rest }),
  };
}

/** An event with the response that came later, and how it ended. */
function resolved(text: string, ended: string | null): { event: Event; outcome?: Partial<StoredOutcome> } {
  const event = JSON.parse(text) as Event;
  if (ended === null) return { event };
  const outcome = JSON.parse(ended) as StoredOutcome;
  const family = familyOf(event.common.event_type);
  if (outcome.response !== undefined && event[family]) {
    Object.assign(event[family], { response: outcome.response });
  }
  return { event, outcome };
}

/** An event as it is stored, with the response of its outcome, if it has one. */
export function resolvedEvent(event: string, outcome: string | null): Event {
  return resolved(event, outcome).event;
}

type StoredOutcome = LedgerOutcome & { number: number };

function cursorOf(cursor = "0"): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw new SbxError("request.invalid", `"${cursor}" is no cursor`, {
    hint: "pass what the page before answered as next_cursor",
  });
}
