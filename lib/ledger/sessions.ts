/** `main.db`: the index of sessions (contracts.md §12), also of those whose VM is gone. */
import type { Client, Row } from "@libsql/client/sqlite3";
import { SbxError } from "../base/error/mod.ts";
import { ledgerError } from "./failure.ts";
import { openDatabase } from "./open.ts";
import { PRAGMAS } from "./schema.ts";

/** One session as it is listed. */
export interface SessionEntry {
  id: string;
  name: string;
  profile_id: string;
  profile_revision: string;
  /** ISO 8601 */
  created_at: string;
  /** when its VM was last seen to end; absent while it runs */
  ended_at?: string;
}

const SCHEMA = `
CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, profile_id TEXT NOT NULL, profile_revision TEXT NOT NULL,
  created_at TEXT NOT NULL, ended_at TEXT
);
CREATE INDEX IF NOT EXISTS sessions_by_name ON sessions (name, created_at);
`;
const COLUMNS = "id, name, profile_id, profile_revision, created_at, ended_at";

/**
 * Renames a damaged index with what belongs to it, so that another can be made.
 *
 * @returns where it is now
 */
export async function setAside(path: string): Promise<string> {
  const kept = `${path}.damaged-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  for (const part of ["-wal", "-shm", ""]) {
    await Deno.rename(path + part, kept + part).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
  return kept;
}

function entryOf({ ended_at, ...entry }: Row): SessionEntry {
  return { ...entry, ...(ended_at !== null && { ended_at }) } as unknown as SessionEntry;
}

/** What a failure of the database means for an index: it holds nothing that cannot be made anew. */
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
      hint: full ? "free some space" : "check its permissions, and those of its folder",
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

  static async open(path: string): Promise<SessionIndex> {
    const client = openDatabase(path, { create: true });
    try {
      await client.executeMultiple(PRAGMAS + SCHEMA);
      return new SessionIndex(path, client);
    } catch (error) {
      client.close();
      throw indexError(error, path);
    }
  }

  /** Adds a session, or says anew what it is. */
  async put({ id, name, profile_id, profile_revision, created_at, ended_at }: SessionEntry): Promise<void> {
    await this.#run(`INSERT OR REPLACE INTO sessions (${COLUMNS}) VALUES (?,?,?,?,?,?)`, [
      id,
      name,
      profile_id,
      profile_revision,
      created_at,
      ended_at ?? null,
    ]);
  }

  /** Every session, the newest first. */
  async list(limit = 1000): Promise<SessionEntry[]> {
    const { rows } = await this.#run(`SELECT ${COLUMNS} FROM sessions ORDER BY created_at DESC LIMIT ?`, [
      limit,
    ]);
    return rows.map(entryOf);
  }

  /** The newest session of a VM that had this name. */
  async named(name: string): Promise<string | undefined> {
    const { rows } = await this.#run(
      "SELECT id FROM sessions WHERE name = ? ORDER BY created_at DESC LIMIT 1",
      [name],
    );
    return rows[0]?.id as string | undefined;
  }

  /** What is known of one session. */
  async get(id: string): Promise<SessionEntry | undefined> {
    const { rows } = await this.#run(`SELECT ${COLUMNS} FROM sessions WHERE id = ?`, [id]);
    return rows.map(entryOf)[0];
  }

  /** Sessions that ended before a moment, ISO 8601. */
  async endedBefore(moment: string): Promise<string[]> {
    const { rows } = await this.#run("SELECT id FROM sessions WHERE ended_at < ?", [moment]);
    return rows.map(({ id }) => id as string);
  }

  async remove(id: string): Promise<void> {
    await this.#run("DELETE FROM sessions WHERE id = ?", [id]);
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
