/**
 * Copies ledgers to a collecting libSQL server (`ledger.url` of corp.toml). The session's own file is written first
 * and is the spool: a server that is slow or away costs nothing but delay, and gets every row when it is back.
 */
import type { Client } from "@libsql/client/sqlite3";
import { SbxError } from "../base/error/mod.ts";
import { openDatabase } from "./open.ts";
import { BATCH_ROWS, EVENT_COLUMNS, OUTCOME_COLUMNS } from "./schema.ts";
import { selectText, type TextRow } from "./text.ts";

/** Milliseconds between two looks at the ledger, and the longest wait after failures. */
export const COLLECT_MS = 1000;
export const COLLECT_WAIT_MAX_MS = 60_000;
/** Longest wait for one answer: a server that says nothing is tried anew. */
const ANSWER_MS = 30_000;
/** Characters of JSON after which a request is full, and rows that are read at a time. */
const SEND_CHARS = 4 * 1024 * 1024;
const READ_ROWS = 100;

/** File beside a ledger of which not all is collected yet: JSON of a {@linkcode CollectTarget}. */
export const uncollectedMark = (path: string) => `${path}.uncollected`;

/** Where ledgers are collected: kept beside a ledger, so that the file's name stands for the token. */
export interface CollectTarget {
  url: string;
  auth_token_file?: string;
}

/** What is collected, and where to. */
export interface CollectOptions {
  /** the ledger's file */
  path: string;
  sessionId: string;
  /** `libsql:`, `https:` or `file:` */
  url: string;
  authToken?: string;
}

/** A table of the ledger, what it is called where it is collected, and what numbers its rows. */
interface Collected {
  from: string;
  to: string;
  key: string;
  columns: readonly string[];
}

const TABLES: readonly Collected[] = [
  { from: "entries", to: "collected_events", key: "sequence", columns: EVENT_COLUMNS },
  { from: "outcomes", to: "collected_outcomes", key: "number", columns: OUTCOME_COLUMNS },
  {
    from: "(SELECT rowid AS row, * FROM findings) AS numbered",
    to: "collected_findings",
    key: "row",
    columns: ["row", "finding_id", "event_id", "rule_id", "finding", "hash"],
  },
];

/** What the server has of one ledger: the number of the last row in each of its tables. */
type Known = Map<string, number>;

/**
 * Sends what the server does not have yet. It may be called again after any failure: rows are told apart by session
 * and sequence, and none is sent twice or left out.
 *
 * @param known what a call before has left: then nothing is asked of a server that has everything
 * @returns how many rows were sent
 * @throws SbxError `ledger.collector.unavailable`
 */
export async function collect(
  { path, sessionId, url, authToken }: CollectOptions,
  known: Known = new Map(),
): Promise<number> {
  const local = openDatabase(path);
  let remote: Client | undefined;
  try {
    // The client for servers is loaded by those who have one.
    const { createClient } = await import("@libsql/client");
    remote = createClient({ url, authToken, fetch: bounded });
    let sent = 0;
    for (const table of TABLES) sent += await collectTable(local, remote, sessionId, table, known);
    return sent;
  } catch (error) {
    known.clear();
    const status = (error as { cause?: { status?: number } }).cause?.status;
    throw new SbxError(
      "ledger.collector.unavailable",
      `the collecting server ${hostOf(url)} does not take events`,
      {
        cause: error,
        hint: status === 401 || status === 403
          ? "it refuses the token: check ledger.auth_token_file of corp.toml; events are kept until it takes them"
          : "events are kept in the session's ledger and sent later",
      },
    );
  } finally {
    local.close();
    remote?.close();
  }
}

function bounded(request: Request): Promise<Response> {
  return fetch(request, { signal: AbortSignal.timeout(ANSWER_MS) });
}

async function collectTable(
  local: Client,
  remote: Client,
  sessionId: string,
  table: Collected,
  known: Known,
): Promise<number> {
  const { to, columns, key } = table;
  let after = known.get(to) ?? await prepare(remote, table, sessionId);
  let sent = 0;
  for (;;) {
    const rows = await rowsAfter(local, table, after);
    known.set(to, after);
    if (!rows.length) return sent;
    const all = ["session_id", ...columns];
    const row = `(${all.map(() => "?").join(",")})`;
    await remote.execute({
      sql: `INSERT OR IGNORE INTO ${to} (${all.join(",")}) VALUES ${rows.map(() => row).join(",")}`,
      args: rows.flatMap((each) => [sessionId, ...columns.map((column) => each[column])]),
    });
    after = Number(rows.at(-1)![key]);
    sent += rows.length;
  }
}

/** Makes the table where there is none; answers what the server has of this session. */
async function prepare(remote: Client, { to, key, columns }: Collected, sessionId: string): Promise<number> {
  const typed = ["session_id", ...columns].map((name) => `${name} ${name === key ? "INTEGER" : "TEXT"}`);
  await remote.execute(
    `CREATE TABLE IF NOT EXISTS ${to} (${typed.join(", ")}, PRIMARY KEY (session_id, ${key}))`,
  );
  const { rows } = await remote.execute({
    sql: `SELECT max(${key}) AS last FROM ${to} WHERE session_id = ?`,
    args: [sessionId],
  });
  return Number(rows[0].last ?? 0);
}

/** The rows of one request. */
async function rowsAfter(
  local: Client,
  { from, key, columns }: Collected,
  after: number,
): Promise<TextRow[]> {
  const name = `${nameOf(from)}.${key}`;
  const rest = `FROM ${from} WHERE ${name} > ? ORDER BY ${name} LIMIT ?`;
  const rows: TextRow[] = [];
  for (let chars = 0; rows.length < BATCH_ROWS && chars < SEND_CHARS;) {
    const read = await selectText(local, columns, rest, [after, READ_ROWS]);
    rows.push(...read);
    if (read.length < READ_ROWS) break;
    after = Number(read.at(-1)![key]);
    for (const row of read) for (const column of columns) chars += row[column]?.length ?? 0;
  }
  return rows;
}

/** The name that a FROM clause gives its rows. */
function nameOf(from: string): string {
  return from.slice(from.lastIndexOf(" ") + 1);
}

/**
 * Sends what a session left behind and takes its mark away, so that nobody tries again.
 *
 * @throws SbxError `ledger.collector.unavailable`; the mark stays
 */
export async function collectRest(path: string, sessionId: string): Promise<void> {
  const mark = uncollectedMark(path);
  const { url, auth_token_file } = JSON.parse(await Deno.readTextFile(mark)) as CollectTarget;
  await collect({ path, sessionId, url, authToken: await readToken(auth_token_file) });
  await Deno.remove(mark);
}

export async function readToken(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    return (await Deno.readTextFile(file)).trim();
  } catch (cause) {
    throw new SbxError(
      "ledger.collector.unavailable",
      `the collecting server's token cannot be read: ${file}`,
      {
        cause,
        hint: "check ledger.auth_token_file of corp.toml",
      },
    );
  }
}

/** Collects until it is stopped; waits longer after each failure. */
export function startCollecting(
  options: CollectOptions,
  onError?: (error: SbxError) => void,
): { stop(): Promise<void> } {
  const known: Known = new Map();
  let stopped = false;
  let wake = () => {};
  const run = async () => {
    let wait = COLLECT_MS;
    while (!stopped) {
      try {
        await collect(options, known);
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

/** A URL may carry a token; messages name its host only. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host || "(a file)" : "(no URL)";
}
