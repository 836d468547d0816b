/**
 * Events of a store in the form that ledgers list them in, session by session: rules are tried on
 * them that no database evaluates.
 */
import { type LedgerEvent, toLedgerEvent } from "../../ledger/read/mod.ts";
import type { Engine } from "../engine.ts";
import type { FleetRecords } from "./records.ts";

/** Events read at once: an event can have a megabyte. */
const PAGE_EVENTS = 2000;

/** Records that have tables. */
type Tables = Required<Pick<FleetRecords, "engine" | "table">>;

/** A session of a machine. */
interface SessionKey {
  machine_id: string;
  session_id: string;
}

/** Lists the sessions with events since a time, oldest first. @param since in Unix `ms` */
export async function sessionsSince({ engine, table }: Tables, since: number): Promise<SessionKey[]> {
  const rows = await engine.rows(
    `SELECT machine_id, session_id, min(timestamp_unix_ms) AS first FROM ${table("events")} AS e
    WHERE timestamp_unix_ms >= ${placeholder(engine, "since", "Int64")}
    GROUP BY machine_id, session_id ORDER BY first, machine_id, session_id`,
    { since: { type: "number", values: [since] } },
  );
  return rows.map(({ machine_id, session_id }) => ({
    machine_id: String(machine_id),
    session_id: String(session_id),
  }));
}

/**
 * Reads the events of a session in order, each with its first outcome.
 *
 * @param since in Unix `ms`, as `until`
 */
export async function* eventsOf(
  tables: Tables,
  { machine_id, session_id }: SessionKey,
  since: number,
  until = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<LedgerEvent> {
  const sql = eventsSql(tables);
  for (let after = 0;;) {
    const rows = await tables.engine.rows(sql, {
      machine: { type: "string", values: [machine_id] },
      session: { type: "string", values: [session_id] },
      after: { type: "number", values: [after] },
      since: { type: "number", values: [since] },
      until: { type: "number", values: [until] },
    });
    for (const { event, decision, rule_id, outcome } of rows) {
      yield toLedgerEvent({ event, decision, rule_id, outcome } as Record<string, string | null>);
    }
    if (rows.length < PAGE_EVENTS) return;
    after = Number(rows.at(-1)!.sequence);
  }
}

/** One page of a session's events; an event that has several outcomes comes with the first. */
function eventsSql({ engine, table }: Tables): string {
  const value = (name: string, type: string) => placeholder(engine, name, type);
  const own = `machine_id = ${value("machine", "String")} AND session_id = ${value("session", "String")}`;
  const page = `SELECT * FROM ${table("events")} AS e WHERE ${own}
      AND sequence > ${value("after", "Int64")} AND timestamp_unix_ms >= ${value("since", "Int64")}
      AND timestamp_unix_ms < ${value("until", "Int64")}
      ORDER BY sequence LIMIT ${PAGE_EVENTS}`;
  const numbered =
    `SELECT event_id, outcome, row_number() OVER (PARTITION BY event_id ORDER BY number) AS place
      FROM ${table("outcomes")} AS ends WHERE ${own}`;
  return `SELECT e.sequence AS sequence, e.event AS event, e.decision AS decision, e.rule_id AS rule_id,
      o.outcome AS outcome
    FROM (${page}) AS e
    LEFT JOIN (SELECT event_id, outcome FROM (${numbered}) AS placed WHERE place = 1) AS o
      ON o.event_id = e.event_id
    ORDER BY sequence`;
}

/** Where a parameter stands in a statement. @param type as ClickHouse calls it */
function placeholder({ dialect }: Engine, name: string, type: string): string {
  return dialect === "duckdb" ? `$${name}` : `{${name}:${type}}`;
}
