/**
 * `main.db`: the index of sessions (docs/design/contracts/12-ledger.md §12), including deleted VMs' sessions.
 */
import type { Client, Row } from "../database.ts";
import { SbxError } from "../../base/error/mod.ts";
import { ledgerError } from "../failure.ts";
import { PRAGMAS } from "../schema.ts";
import { openDatabase } from "./open.ts";
import { Ledger, type LedgerOptions } from "../ledger.ts";
import { readSeal } from "../chain.ts";

/** One session in a list. */
export interface SessionEntry {
  id: string;
  name: string;
  profile_id: string;
  profile_revision: string;
  /** ISO 8601 */
  created_at: string;
  /** last end of its VM; absent while it runs */
  ended_at?: string;
  /** user of the host, name of the host, and the program that asked; all three or none */
  user?: string;
  device?: string;
  client?: string;
  /** profile of the agent that its VM was made for */
  agent?: string;
}

/** Run one by one: a failure of several has no exact code. */
const SCHEMA = [
  `CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, profile_id TEXT NOT NULL, profile_revision TEXT NOT NULL,
  created_at TEXT NOT NULL, ended_at TEXT
)`,
  `CREATE TABLE IF NOT EXISTS makers (
  session_id TEXT PRIMARY KEY, user TEXT NOT NULL, device TEXT NOT NULL, client TEXT NOT NULL
)`,
  "CREATE TABLE IF NOT EXISTS agents (session_id TEXT PRIMARY KEY, agent TEXT NOT NULL)",
  "CREATE INDEX IF NOT EXISTS sessions_by_name ON sessions (name, created_at)",
];
const COLUMNS = "id, name, profile_id, profile_revision, created_at, ended_at";
/** Makers and agents have tables of their own, so that an older sbx can still write this index. */
const ENTRIES = `SELECT ${COLUMNS}, user, device, client, agent FROM sessions
  LEFT JOIN makers ON makers.session_id = id LEFT JOIN agents ON agents.session_id = id`;

/**
 * Renames a damaged index with its log files, so that another one can be created.
 *
 * @returns the new path
 */
export async function renameDamagedIndex(path: string): Promise<string> {
  const renamed = `${path}.damaged-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  for (const part of ["-wal", "-shm", ""]) {
    await Deno.rename(path + part, renamed + part).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
  return renamed;
}

function toEntry(row: Row): SessionEntry {
  return Object.fromEntries(
    Object.entries(row).filter(([, value]) => value !== null),
  ) as unknown as SessionEntry;
}

/** Converts a failure of the database. Everything in an index can be created again. */
function indexError(cause: unknown, path: string): SbxError {
  const error = ledgerError(cause, path);
  const full = error.hint !== undefined;
  if (error.code === "ledger.invalid") {
    return new SbxError("index.damaged", `the index of sessions ${path} is damaged`, { cause });
  }
  return new SbxError(
    error.code,
    `the index of sessions ${path} cannot be used${full ? ": its disk is full" : ""}`,
    {
      cause,
      hint: full ? "free some space" : "check the permissions of the file and of its folder",
    },
  );
}

/** The index of one home; the service is its only writer. */
export class SessionIndex {
  readonly #path: string;
  readonly #client: Client;

  private constructor(path: string, client: Client) {
    this.#path = path;
    this.#client = client;
  }

  /** Opens or creates an index. @throws {SbxError} `index.damaged`, `ledger.unavailable` */
  static async open(path: string): Promise<SessionIndex> {
    const client = openDatabase(path);
    try {
      for (const statement of [...PRAGMAS, ...SCHEMA]) await client.execute(statement);
      return new SessionIndex(path, client);
    } catch (error) {
      client.close();
      throw indexError(error, path);
    }
  }

  /** Adds or replaces a session. */
  async put(
    { id, name, profile_id, profile_revision, created_at, ended_at, user, device, client, agent }:
      SessionEntry,
  ): Promise<void> {
    await this.#run(`INSERT OR REPLACE INTO sessions (${COLUMNS}) VALUES (?,?,?,?,?,?)`, [
      id,
      name,
      profile_id,
      profile_revision,
      created_at,
      ended_at ?? null,
    ]);
    if (agent !== undefined) await this.#run("INSERT OR REPLACE INTO agents VALUES (?,?)", [id, agent]);
    if (user === undefined || device === undefined || client === undefined) return;
    await this.#run("INSERT OR REPLACE INTO makers VALUES (?,?,?,?)", [id, user, device, client]);
  }

  /** Lists sessions, newest first; sessions of the same moment are in the order of their ids. */
  async list(limit = 1000): Promise<SessionEntry[]> {
    const { rows } = await this.#run(`${ENTRIES} ORDER BY created_at DESC, id LIMIT ?`, [
      limit,
    ]);
    return rows.map(toEntry);
  }

  /** Ids of all sessions, in no order. */
  async ids(): Promise<string[]> {
    const { rows } = await this.#run("SELECT id FROM sessions", []);
    return rows.map(({ id }) => id as string);
  }

  /** Id of the newest session of a VM with this name. */
  async findByName(name: string): Promise<string | undefined> {
    const { rows } = await this.#run(
      "SELECT id FROM sessions WHERE name = ? ORDER BY created_at DESC, id LIMIT 1",
      [name],
    );
    return rows[0]?.id as string | undefined;
  }

  /** Reads one session. */
  async get(id: string): Promise<SessionEntry | undefined> {
    const { rows } = await this.#run(`${ENTRIES} WHERE id = ?`, [id]);
    return rows.map(toEntry)[0];
  }

  /** Ids of sessions that ended before `time`, ISO 8601. */
  async findEndedBefore(time: string): Promise<string[]> {
    const { rows } = await this.#run("SELECT id FROM sessions WHERE ended_at < ?", [time]);
    return rows.map(({ id }) => id as string);
  }

  async remove(id: string): Promise<void> {
    await this.#run("DELETE FROM sessions WHERE id = ?", [id]);
    for (const table of ["makers", "agents"]) {
      await this.#run(`DELETE FROM ${table} WHERE session_id = ?`, [id]);
    }
  }

  close(): void {
    this.#client.close();
  }

  async #run(sql: string, args: (string | number | null)[]) {
    try {
      return await this.#client.execute({ sql, args });
    } catch (error) {
      throw indexError(error, this.#path);
    }
  }
}

/**
 * Seals the ledger of a session whose process ended without closing it. From then on, nothing can be cut off
 * unnoticed; the seal does not reveal earlier cuts.
 *
 * @param sign as in the options of a ledger
 * @returns false if there is no ledger, or it has a seal
 * @throws {SbxError} as {@linkcode Ledger.open}
 */
export async function sealAbandoned(
  path: string,
  sessionId: string,
  sign?: LedgerOptions["sign"],
): Promise<boolean> {
  if (!await isFile(path) || await readSeal(path) !== undefined) return false;
  await (await Ledger.open(path, { sessionId, ...(sign && { sign }) })).close();
  return true;
}

function isFile(path: string): Promise<boolean> {
  return Deno.lstat(path).then((info) => info.isFile, () => false);
}
