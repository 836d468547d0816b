/** Tables into which machines insert segments and reports, for a receiver that reads them there. */
import type { ClickHouseClient } from "./client.ts";

/** Blocks of rows whose tokens the table remembers: a repeated one is not inserted. */
const TOKENS = 10_000;

/** DDL. Segments go after 30 days: a receiver has them long before. */
export const MAILBOX_STATEMENTS: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS segments (
  machine_id LowCardinality(String),
  session_id String,
  from_events UInt64,
  from_outcomes UInt64,
  from_journal UInt64,
  to_heads String,
  segment String CODEC(NONE),
  received_at DateTime DEFAULT now()
) ENGINE = MergeTree ORDER BY (machine_id, session_id, from_events, from_outcomes, from_journal)
TTL received_at + INTERVAL 30 DAY SETTINGS non_replicated_deduplication_window = ${TOKENS}`,
  `CREATE TABLE IF NOT EXISTS reports (
  machine_id LowCardinality(String),
  kind LowCardinality(String),
  session_id String,
  made_at String,
  report String,
  received_at DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree ORDER BY (machine_id, kind, session_id)
TTL received_at + INTERVAL 30 DAY`,
];

const text = (value: string) => ({ type: "string" as const, values: [value] });
const number = (value: number) => ({ type: "number" as const, values: [value] });
const OWN = "machine_id = {machine:String} AND session_id = {session:String}";
const ORDER = ["from_events", "from_outcomes", "from_journal"];

/** Reads the heads at the end of a session's last segment, as JSON; `undefined`: no segment. */
export async function lastHeads(
  client: ClickHouseClient,
  machineId: string,
  sessionId: string,
): Promise<string | undefined> {
  const [row] = await client.rows(
    `SELECT to_heads FROM segments WHERE ${OWN} ORDER BY ${
      ORDER.map((name) => `${name} DESC`).join(", ")
    } LIMIT 1`,
    { machine: text(machineId), session: text(sessionId) },
  );
  return row && String(row.to_heads);
}

/** Lists sessions with the heads that their last segments end with. */
export async function sessionHeads(client: ClickHouseClient) {
  const rows = await client.rows(
    `SELECT machine_id, session_id, argMax(to_heads, (${ORDER.join(", ")})) AS heads FROM segments
GROUP BY machine_id, session_id`,
  );
  return rows.map(({ machine_id, session_id, heads }) => ({
    machine_id: String(machine_id),
    session_id: String(session_id),
    heads: String(heads),
  }));
}

/** Reads segments of a session from a position on, in order. */
export async function segmentsFrom(
  client: ClickHouseClient,
  { machine_id, session_id }: { machine_id: string; session_id: string },
  from: { events: number; outcomes: number; journal: number },
  limit: number,
): Promise<Uint8Array[]> {
  const rows = await client.rows(
    `SELECT segment FROM segments WHERE ${OWN}
  AND (${ORDER.join(", ")}) >= ({events:UInt64}, {outcomes:UInt64}, {journal:UInt64})
ORDER BY ${ORDER.join(", ")} LIMIT {limit:UInt64}`,
    {
      machine: text(machine_id),
      session: text(session_id),
      events: number(from.events),
      outcomes: number(from.outcomes),
      journal: number(from.journal),
      limit: number(limit),
    },
  );
  return rows.map(({ segment }) => Uint8Array.fromBase64(String(segment)));
}

/**
 * Reads reports since a time, the last one of each kind and session.
 *
 * @param since Unix `s`, by the server's clock
 */
export async function reportsSince(client: ClickHouseClient, since: number) {
  const rows = await client.rows(
    `SELECT report, toUnixTimestamp(received_at) AS at FROM reports FINAL
WHERE received_at >= fromUnixTimestamp({since:Int64}) ORDER BY received_at`,
    { since: number(since) },
  );
  return rows.map(({ report, at }) => ({ report: String(report), at: Number(at) }));
}
