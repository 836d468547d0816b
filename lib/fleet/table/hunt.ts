/** Hunts over many sessions: packs in SQL, on the engine that a URL names. */
import { join, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { type HuntPeriod, type HuntSource, huntSql } from "../../detection/sql/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import type { DetectionIr, IrRule } from "../../detection/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../clickhouse/mod.ts";
import { ChDb, ClickHouseServer, DuckDb, type Engine } from "../engine.ts";
import { storePaths } from "../store.ts";
import { ledgerSource, parquetTable, serverTable, tableSource } from "./columns.ts";
import { type LedgerEvent, toLedgerEvent } from "../../ledger/read/mod.ts";

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
  severity: IrRule["severity"];
}

/** An engine, and the tables it has. */
export interface Over extends AsyncDisposable {
  engine: Engine;
  source: HuntSource;
  /** folder of the store, if it is one */
  store?: string;
  /** tables for questions; absent: there are only ledgers */
  table?(name: string): string;
  /** machines are a table too, and not files of the store */
  hasMachines?: boolean;
}

/**
 * Opens the target of `--over`: `duckdb://DIR` or `chdb://DIR` for a store with Parquet, `chdb://DIR` for a
 * folder of ledgers, `duckdb://FILE` for a database with the tables of `sbx-admin fleet schema duckdb`,
 * `clickhouse://HOST` for a server with the tables of `sbx-admin fleet serve --clickhouse`.
 *
 * @param authorize makes the `authorization` header for a server
 * @throws {SbxError} `fleet.over.invalid`, `fleet.engine.missing`
 */
export async function openOver(over: string, authorize?: (url: URL) => Promise<string>): Promise<Over> {
  if (over.startsWith("clickhouse:")) {
    return await openServer(new ClickHouseClient(parseClickHouse(over), authorize));
  }
  const [, kind, place] = /^(duckdb|chdb):\/\/(.+)$/.exec(over) ?? [];
  if (!kind) {
    throw new SbxError("fleet.over.invalid", `"${shownAddress(over)}" names no records`, {
      hint:
        "use duckdb://DIR, chdb://DIR, duckdb://FILE or clickhouse://HOST, or sessions for the ledgers of this machine",
    });
  }
  const path = resolve(place);
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info) {
    throw new SbxError("fleet.over.invalid", `there is nothing at ${path}`, { hint: "check the path" });
  }
  if (info.isFile) {
    if (kind === "chdb") {
      throw new SbxError("fleet.over.invalid", `${path} is a file; chdb:// takes a folder`);
    }
    const engine = await DuckDb.open(path);
    const found = await engine.rows("SELECT 1 FROM duckdb_tables() WHERE table_name = 'machines'");
    const hasMachines = found.length > 0;
    return { ...opened(engine, tableSource("duckdb")), table: (name) => name, hasMachines };
  }
  if (await hasParts(path)) {
    const engine = kind === "duckdb" ? await DuckDb.open() : new ChDb();
    const table = parquetTable(path, engine.dialect);
    return { ...opened(engine, tableSource(engine.dialect, table)), store: path, table };
  }
  const ledgers = kind === "chdb" ? await ledgersIn(path) : [];
  if (ledgers.length > 0) return opened(new ChDb(), ledgerSource(ledgers));
  throw new SbxError("fleet.over.invalid", `${path} has no tables`, {
    hint: "sbx-admin fleet tables DIR writes the tables of a store; chdb:// also reads a folder of ledgers",
  });
}

/** Opens a server's tables. Tables of an earlier sbx lack columns. */
async function openServer(client: ClickHouseClient): Promise<Over> {
  const found = await client.rows(
    "SELECT table, name FROM system.columns WHERE database = currentDatabase()",
  );
  const table = serverTable((name) =>
    new Set(found.filter((row) => row.table === name).map((row) => String(row.name)))
  );
  if (!found.some((row) => row.table === "events")) {
    throw new SbxError("fleet.over.invalid", `${client.address.name} has no tables of a fleet`, {
      hint: "sbx-admin fleet serve DIR --clickhouse URL makes and fills them",
    });
  }
  const engine = new ClickHouseServer(client);
  return { ...opened(engine, tableSource("clickhouse", table)), table, hasMachines: true };
}

function opened(engine: Engine, source: HuntSource): Over {
  return { engine, source, [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose]() };
}

/** Runs packs. @returns the matches by machine, session and event */
export async function hunt(
  { engine, source }: Pick<Over, "engine" | "source">,
  irs: readonly DetectionIr[],
  period: HuntPeriod = {},
): Promise<HuntRow[]> {
  const { sql, parameters, rules } = huntSql(irs, engine.dialect, source, period);
  const rows = await engine.rows(sql, parameters);
  return rows.map(({ rule: number, ...row }) => {
    const { rule, pack_id } = rules[Number(number)];
    return { ...row, rule_id: rule.id, pack_id, title: rule.title, severity: rule.severity } as HuntRow;
  });
}

async function hasParts(dir: string): Promise<boolean> {
  try {
    for await (const { name, isDirectory } of Deno.readDir(storePaths(dir).parts)) {
      if (isDirectory && !name.startsWith(".")) return true;
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return false;
}

async function ledgersIn(dir: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(dir)) {
    const path = join(dir, name, "session.db");
    if (isDirectory && await Deno.stat(path).then(({ isFile }) => isFile, () => false)) paths.push(path);
  }
  return paths.sort();
}

// Events of a store in their ledger form, session by session, for rules that no database evaluates.

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
