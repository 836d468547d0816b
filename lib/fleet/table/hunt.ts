/**
 * Hunts over the records of many sessions: packs as SQL, matched by their engine; Sigma rules by sbx's
 * matcher, over the events that the engine reads.
 */
import {
  type Compiled,
  type DetectionIr,
  isPlan,
  Matcher,
  type Severity,
  type SigmaPlan,
} from "../../detection/mod.ts";
import { type HuntPeriod, huntSql } from "../../detection/sql/mod.ts";
import { type LedgerEvent, readEvents } from "../../ledger/read/mod.ts";
import type { FleetRecords } from "./records.ts";
import { eventsOf, sessionsSince } from "./session.ts";

/** A match of a rule with an event of some session. */
export interface HuntRow {
  machine_id: string;
  session_id: string;
  sequence: number;
  event_id: string;
  event_type: string;
  timestamp_unix_ms: number;
  rule_id: string;
  pack_id: string;
  title: string;
  severity: Severity;
}

/** Where a hunt reads. */
type Records = Pick<FleetRecords, "engine" | "source" | "table" | "ledgers">;

/** Runs packs and Sigma rules. @returns the matches by machine, session and event */
export async function hunt(
  records: Records,
  detections: readonly Compiled[],
  period: HuntPeriod = {},
): Promise<HuntRow[]> {
  const plans = detections.filter(isPlan);
  const irs = detections.filter((each): each is DetectionIr => !isPlan(each));
  const found = irs.length > 0 ? await huntPacks(records, irs, period) : [];
  if (plans.length === 0) return found;
  found.push(...await huntRules(records, plans, period));
  return found.sort(inOrder).slice(0, period.limit);
}

async function huntPacks(
  { engine, source }: Records,
  irs: readonly DetectionIr[],
  period: HuntPeriod,
): Promise<HuntRow[]> {
  const { sql, parameters, rules } = huntSql(irs, engine.dialect, source, period);
  const rows = await engine.rows(sql, parameters);
  return rows.map(({ rule: index, ...row }) => {
    const { rule, pack_id } = rules[Number(index)];
    return { ...row, rule_id: rule.id, pack_id, title: rule.title, severity: rule.severity } as HuntRow;
  });
}

async function huntRules(
  records: Records,
  plans: readonly SigmaPlan[],
  { since = 0, until = Number.MAX_SAFE_INTEGER, limit = Infinity }: HuntPeriod,
): Promise<HuntRow[]> {
  const found: HuntRow[] = [];
  for await (const { machine_id, session_id, events } of sessionsOf(records, since, until)) {
    // Correlations and parents are within a session, and two machines may say that they have the same one.
    const matcher = new Matcher(plans);
    for await (const event of events) {
      const { event_id, event_type, sequence, timestamp_unix_ms } = event.common;
      if (timestamp_unix_ms < since || timestamp_unix_ms >= until) continue;
      for (const { rule: { id: rule_id, title, severity }, pack_id } of matcher.hits(event)) {
        found.push({
          machine_id,
          session_id,
          sequence,
          event_id,
          event_type,
          timestamp_unix_ms,
          rule_id,
          pack_id,
          title,
          severity,
        });
      }
      if (found.length >= limit) return found;
    }
  }
  return found;
}

/** A session's events, in order. */
interface SessionEvents {
  machine_id: string;
  session_id: string;
  events: AsyncIterable<LedgerEvent>;
}

async function* sessionsOf(
  { engine, table, ledgers = [] }: Records,
  since: number,
  until: number,
): AsyncGenerator<SessionEvents> {
  if (table) {
    const tables = { engine, table };
    for (const session of await sessionsSince(tables, since)) {
      yield { ...session, events: eventsOf(tables, session, since, until) };
    }
  }
  for (const { session_id, path } of ledgers) {
    yield { machine_id: "", session_id, events: ledgerEvents(path) };
  }
}

/** Events of a ledger read at once. */
const PAGE_EVENTS = 1000;

async function* ledgerEvents(path: string): AsyncGenerator<LedgerEvent> {
  for (let cursor: string | undefined = "0"; cursor !== undefined;) {
    const page = await readEvents(path, { cursor, limit: PAGE_EVENTS });
    yield* page.events;
    cursor = page.next_cursor;
  }
}

function inOrder(a: HuntRow, b: HuntRow): number {
  return compare(a.machine_id, b.machine_id) || compare(a.session_id, b.session_id) ||
    a.sequence - b.sequence;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
