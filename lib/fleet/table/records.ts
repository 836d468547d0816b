/** The records that `--over` names, opened: an engine, and where the events are. */
import { join, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import type { HuntSource } from "../../detection/sql/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../clickhouse/mod.ts";
import { ChDb, ClickHouseServer, DuckDb, type Engine } from "../engine.ts";
import { storePaths } from "../store.ts";
import { ledgerSource, parquetTable, serverTable, tableSource } from "./columns.ts";

interface LedgerPath {
  session_id: string;
  path: string;
}

/** Records of many sessions, and the engine that reads them. */
export interface FleetRecords extends AsyncDisposable {
  engine: Engine;
  /** where hunts find the events */
  source: HuntSource;
  /** name of a table, as SQL; absent: there are no tables, but ledgers only */
  table?(name: string): string;
  /** ledgers of a folder, one of each session */
  ledgers?: readonly LedgerPath[];
  /** folder of the store; absent: the tables are in a file or on a server */
  store?: string;
  /** machines are one of the tables; absent: they are files of the store */
  hasMachines?: boolean;
}

/** Embedded engines, by the schemes of their URLs. */
type Embedded = "duckdb" | "chdb";

/**
 * Opens records by their URL: `duckdb://DIR` or `chdb://DIR` for a store with Parquet, `chdb://DIR` for a
 * folder of ledgers, `duckdb://FILE` for a database with the tables of `sbx-admin fleet schema duckdb`,
 * `clickhouse://HOST` for a server with the tables of `sbx-admin fleet serve --clickhouse`.
 *
 * @param authorize makes the `authorization` header for a server
 * @throws {SbxError} `fleet.over.invalid`, `fleet.engine.missing`
 */
export async function openRecords(
  over: string,
  authorize?: (url: URL) => Promise<string>,
): Promise<FleetRecords> {
  if (over.startsWith("clickhouse:")) {
    return await openServer(new ClickHouseClient(parseClickHouse(over), authorize));
  }
  const [, embedded, place] = /^(duckdb|chdb):\/\/(.+)$/.exec(over) ?? [];
  if (!embedded) {
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
  return await (info.isFile ? openFile : openFolder)(path, embedded as Embedded);
}

async function openServer(client: ClickHouseClient): Promise<FleetRecords> {
  const found = await client.rows(
    "SELECT table, name FROM system.columns WHERE database = currentDatabase()",
  );
  if (!found.some((row) => row.table === "events")) {
    throw new SbxError("fleet.over.invalid", `${client.address.name} has no tables of a fleet`, {
      hint: "sbx-admin fleet serve DIR --clickhouse URL makes and fills them",
    });
  }
  // Tables of an earlier sbx lack columns.
  const table = serverTable((name) =>
    new Set(found.filter((row) => row.table === name).map((row) => String(row.name)))
  );
  const engine = new ClickHouseServer(client);
  return { ...opened(engine, tableSource("clickhouse", table)), table, hasMachines: true };
}

async function openFile(path: string, embedded: Embedded): Promise<FleetRecords> {
  if (embedded === "chdb") {
    throw new SbxError("fleet.over.invalid", `${path} is a file; chdb:// takes a folder`);
  }
  const engine = await DuckDb.open(path);
  const machines = await engine.rows("SELECT 1 FROM duckdb_tables() WHERE table_name = 'machines'");
  const hasMachines = machines.length > 0;
  return { ...opened(engine, tableSource("duckdb")), table: (name) => name, hasMachines };
}

async function openFolder(path: string, embedded: Embedded): Promise<FleetRecords> {
  if (await hasParquet(path)) {
    const engine = embedded === "duckdb" ? await DuckDb.open() : new ChDb();
    const table = parquetTable(path, engine.dialect);
    return { ...opened(engine, tableSource(engine.dialect, table)), table, store: path };
  }
  const ledgers = embedded === "chdb" ? await ledgersIn(path) : [];
  if (ledgers.length > 0) {
    return { ...opened(new ChDb(), ledgerSource(ledgers.map(({ path }) => path))), ledgers };
  }
  throw new SbxError("fleet.over.invalid", `${path} has no tables`, {
    hint: "sbx-admin fleet tables DIR writes the tables of a store; chdb:// also reads a folder of ledgers",
  });
}

function opened(engine: Engine, source: HuntSource): FleetRecords {
  return { engine, source, [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose]() };
}

/** True for a store whose tables `sbx-admin fleet tables` has written. */
async function hasParquet(dir: string): Promise<boolean> {
  try {
    for await (const { name, isDirectory } of Deno.readDir(storePaths(dir).parts)) {
      if (isDirectory && !name.startsWith(".")) return true;
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return false;
}

async function ledgersIn(dir: string): Promise<LedgerPath[]> {
  const ledgers: LedgerPath[] = [];
  for await (const { name, isDirectory } of Deno.readDir(dir)) {
    const path = join(dir, name, "session.db");
    if (isDirectory && await Deno.stat(path).then(({ isFile }) => isFile, () => false)) {
      ledgers.push({ session_id: name, path });
    }
  }
  return ledgers.sort((a, b) => a.path < b.path ? -1 : 1);
}
