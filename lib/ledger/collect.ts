/**
 * Copies ledgers to a collecting libSQL server (`ledger.url` of corp.toml). The session's own file is written first
 * and is the spool: a server that is slow or away costs nothing but delay, and gets every row when it is back.
 */
import type { Client } from "@libsql/client/sqlite3";
import { SbxError } from "../error/mod.ts";
import { openDatabase } from "./open.ts";
import { BATCH_ROWS, EVENT_COLUMNS } from "./schema.ts";
import { selectText } from "./text.ts";

/** Milliseconds between two looks at the ledger, and the longest wait after failures. */
export const COLLECT_MS = 1000;
export const COLLECT_WAIT_MAX_MS = 60_000;

/** What is collected, and where to. */
export interface CollectOptions {
  /** the ledger's file */
  path: string;
  sessionId: string;
  /** `libsql:`, `https:` or `file:` */
  url: string;
  authToken?: string;
}

const COLUMNS = ["session_id", ...EVENT_COLUMNS];
const TABLE = `CREATE TABLE IF NOT EXISTS collected_events (
  ${COLUMNS.map((column) => `${column} ${column === "sequence" ? "INTEGER" : "TEXT"}`).join(", ")},
  PRIMARY KEY (session_id, sequence))`;
const ROW = `(${COLUMNS.map(() => "?").join(",")})`;

/**
 * Sends what the server does not have yet. It may be called again after any failure: rows are told apart by session
 * and sequence, and none is sent twice or left out.
 *
 * @returns how many events were sent
 * @throws SbxError `ledger.collector.unavailable`
 */
export async function collect({ path, sessionId, url, authToken }: CollectOptions): Promise<number> {
  const local = openDatabase(path);
  let remote: Client | undefined;
  try {
    // The client for servers is loaded by those who have one.
    const { createClient } = await import("@libsql/client");
    remote = createClient({ url, authToken });
    await remote.execute(TABLE);
    let sent = 0;
    for (let after = await lastSequence(remote, sessionId);;) {
      const rows = await selectText(
        local,
        EVENT_COLUMNS,
        "FROM security_events WHERE security_events.sequence > ? ORDER BY security_events.sequence LIMIT ?",
        [after, BATCH_ROWS],
      );
      if (!rows.length) return sent;
      await remote.execute({
        sql: `INSERT OR IGNORE INTO collected_events (${COLUMNS.join(",")}) VALUES ${
          rows.map(() => ROW).join(",")
        }`,
        args: rows.flatMap((row) => [sessionId, ...EVENT_COLUMNS.map((column) => row[column])]),
      });
      after = Number(rows.at(-1)!.sequence);
      sent += rows.length;
    }
  } catch (error) {
    throw new SbxError(
      "ledger.collector.unavailable",
      `the collecting server ${hostOf(url)} does not take events`,
      {
        cause: error,
        hint: "events are kept in the session's ledger and sent later",
      },
    );
  } finally {
    local.close();
    remote?.close();
  }
}

/** Collects until it is stopped; waits longer after each failure. */
export function startCollecting(
  options: CollectOptions,
  onError?: (error: SbxError) => void,
): { stop(): Promise<void> } {
  let stopped = false;
  let wake = () => {};
  const run = async () => {
    let wait = COLLECT_MS;
    while (!stopped) {
      try {
        await collect(options);
        wait = COLLECT_MS;
      } catch (error) {
        onError?.(error as SbxError);
        wait = Math.min(wait * 2, COLLECT_WAIT_MAX_MS);
      }
      if (!stopped) await pause(wait, (resume) => wake = resume);
    }
  };
  const running = run();
  return {
    stop() {
      stopped = true;
      wake();
      return running;
    },
  };
}

function pause(ms: number, wakeable: (resume: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wakeable(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

async function lastSequence(remote: Client, sessionId: string): Promise<number> {
  const { rows } = await remote.execute({
    sql: "SELECT max(sequence) AS last FROM collected_events WHERE session_id = ?",
    args: [sessionId],
  });
  return Number(rows[0].last ?? 0);
}

/** A URL may carry a token; messages name its host only. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host || "(a file)" : "(no URL)";
}
