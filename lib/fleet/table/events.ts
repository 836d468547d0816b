/** Events of a store in their ledger form, session by session, for rules that no database evaluates. */
import { type LedgerEvent, toLedgerEvent } from "../../ledger/read/mod.ts";
import type { Over } from "./hunt.ts";

/** Events read at once: an event can have a megabyte. */
const PAGE_EVENTS = 2000;

/** Lists the sessions of a store with events since a time, oldest first. @param since in Unix `ms` */
export async function sessionsSince(
  { engine, table }: Required<Pick<Over, "engine" | "table">>,
  since: number,
): Promise<{ machine_id: string; session_id: string }[]> {
  const at = engine.dialect === "duckdb" ? "$since" : "{since:Int64}";
  const rows = await engine.rows(
    `SELECT machine_id, session_id, min(timestamp_unix_ms) AS first FROM ${table("events")} AS e
    WHERE timestamp_unix_ms >= ${at} GROUP BY machine_id, session_id ORDER BY first, machine_id, session_id`,
    { since: { type: "number", values: [since] } },
  );
  return rows.map(({ machine_id, session_id }) => ({
    machine_id: String(machine_id),
    session_id: String(session_id),
  }));
}

/** Reads the events of a session in order, each with its first end. */
export async function* eventsOf(
  { engine, table }: Required<Pick<Over, "engine" | "table">>,
  { machine_id, session_id }: { machine_id: string; session_id: string },
  since: number,
): AsyncGenerator<LedgerEvent> {
  const place = (name: string, type: string) =>
    engine.dialect === "duckdb" ? `$${name}` : `{${name}:${type}}`;
  const own = `machine_id = ${place("machine", "String")} AND session_id = ${place("session", "String")}`;
  const sql =
    `SELECT e.sequence AS sequence, e.event AS event, e.decision AS decision, e.rule_id AS rule_id, o.outcome AS outcome
    FROM (SELECT * FROM ${table("events")} AS e WHERE ${own}
      AND sequence > ${place("after", "Int64")} AND timestamp_unix_ms >= ${place("since", "Int64")}
      ORDER BY sequence LIMIT ${PAGE_EVENTS}) AS e
    LEFT JOIN (SELECT event_id, outcome FROM
      (SELECT event_id, outcome, row_number() OVER (PARTITION BY event_id ORDER BY number) AS place
        FROM ${
      table("outcomes")
    } AS ends WHERE ${own}) AS placed WHERE place = 1) AS o ON o.event_id = e.event_id
    ORDER BY sequence`;
  for (let after = 0;;) {
    const rows = await engine.rows(sql, {
      machine: { type: "string", values: [machine_id] },
      session: { type: "string", values: [session_id] },
      after: { type: "number", values: [after] },
      since: { type: "number", values: [since] },
    });
    for (const { event, decision, rule_id, outcome } of rows) {
      yield toLedgerEvent({ event, decision, rule_id, outcome } as Record<string, string | null>);
    }
    if (rows.length < PAGE_EVENTS) return;
    after = Number(rows.at(-1)!.sequence);
  }
}
