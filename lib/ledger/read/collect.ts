/**
 * Copies ledgers to a collecting libSQL server (`ledger.url` of corp.toml). The session's own file is written
 * first and is the spool: a slow or absent server delays nothing, and gets every row later.
 */
import { fileURLToPath } from "node:url";
import type { Client, Query, Row } from "../database.ts";
import { SbxError } from "../../base/error/mod.ts";
import { readAnswer } from "../../base/json/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { BATCH_ROWS, EVENT_COLUMNS, OUTCOME_COLUMNS } from "../schema.ts";
import { openDatabase, selectPage, type TextRow, withLedger } from "./open.ts";

/** `ms` between two reads of the ledger, and the longest wait after failures. */
export const COLLECT_MS = 1000;
export const COLLECT_WAIT_MAX_MS = 60_000;
/** Longest wait for one answer, in `ms`; then the request is repeated. */
const ANSWER_MS = timeLimit(30_000);
/** Limits of an answer: it has at most one row, with one number. */
const ANSWER_LIMITS = { bytes: 1024 * 1024, depth: 16 };
/** Characters of JSON after which a request is full, and rows read at a time. */
const SEND_CHARS = 4 * 1024 * 1024;
const READ_ROWS = 100;

/** File beside a ledger with uncollected rows: JSON of a {@linkcode CollectTarget}. */
export const uncollectedMark = (path: string) => `${path}.uncollected`;

/** Collecting server, as stored beside a ledger: with the token's file instead of the token. */
export interface CollectTarget {
  url: string;
  auth_token_file?: string;
}

/** Ledger and collecting server. */
export interface CollectOptions {
  /** the ledger's file */
  path: string;
  sessionId: string;
  /** `libsql:`, `https:` or `file:` */
  url: string;
  authToken?: string;
}

/** Table of the ledger and its copy. */
interface CollectedTable {
  /** FROM clause in the ledger */
  from: string;
  /** name on the server */
  to: string;
  /** column that numbers the rows */
  key: string;
  columns: readonly string[];
}

const TABLES: readonly CollectedTable[] = [
  { from: "entries", to: "collected_events", key: "sequence", columns: EVENT_COLUMNS },
  { from: "outcomes", to: "collected_outcomes", key: "number", columns: OUTCOME_COLUMNS },
  {
    from: "(SELECT rowid AS row, * FROM findings) AS numbered",
    to: "collected_findings",
    key: "row",
    columns: ["row", "finding_id", "event_id", "rule_id", "finding", "hash"],
  },
];

/** Number of the last row on the server, by table. */
type Progress = Map<string, number>;

/**
 * Sends the rows that the server does not have. May be called again after any failure: session and number
 * identify a row, so that none is stored twice or left out.
 *
 * @param progress map shared by calls for the same ledger: with it, no request is
 * made if there is nothing to send
 * @returns number of rows sent
 * @throws {SbxError} `ledger.collector.unavailable`; also the errors of an unreadable ledger
 */
export async function collect(
  { path, sessionId, url, authToken }: CollectOptions,
  progress: Progress = new Map(),
): Promise<number> {
  return await withLedger(path, (local) =>
    withServer({ url, authToken }, async (remote) => {
      try {
        let sent = 0;
        for (const table of TABLES) sent += await collectTable(local, remote, sessionId, table, progress);
        return sent;
      } catch (error) {
        progress.clear();
        throw error;
      }
    }));
}

/**
 * Sends a signed head of a ledger, which can later show whether anything before it changed. The server's own
 * time is stored beside it.
 *
 * @throws {SbxError} `ledger.collector.unavailable`
 */
export async function collectHead(
  { sessionId, url, authToken }: CollectOptions,
  envelope: string,
): Promise<void> {
  await withServer({ url, authToken }, async (remote) => {
    await remote.execute(
      `CREATE TABLE IF NOT EXISTS collected_heads (number INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
        received_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, envelope TEXT NOT NULL)`,
    );
    await remote.execute({
      sql: "INSERT INTO collected_heads (session_id, envelope) VALUES (?, ?)",
      args: [sessionId, envelope],
    });
  });
}

/** A failure of the session's own ledger; `cause` is the database's error. */
class UnreadableError extends Error {}

/** Works on the collecting server. @throws {SbxError} `ledger.collector.unavailable` */
async function withServer<T>(
  { url, authToken }: Pick<CollectOptions, "url" | "authToken">,
  work: (remote: Client) => Promise<T>,
): Promise<T> {
  let remote: Client | undefined;
  try {
    remote = await connectTo(url, authToken);
    return await work(remote);
  } catch (error) {
    if (error instanceof UnreadableError) throw error.cause;
    throw new SbxError(
      "ledger.collector.unavailable",
      `the collecting server ${hostOf(url)} does not accept events`,
      {
        cause: error,
        hint: error instanceof RefusedTokenError
          ? "it refuses the token: check ledger.auth_token_file of corp.toml; events are kept and sent later"
          : "events are kept in the session's ledger and sent later",
      },
    );
  } finally {
    remote?.close();
  }
}

/** Connects to a server, or opens the file of a `file:` URL. */
async function connectTo(url: string, authToken?: string): Promise<Client> {
  const { protocol } = new URL(url);
  if (protocol === "file:") return openDatabase(fileURLToPath(url));
  // Loaded only where there is a server.
  const { openHttp } = await import("@libsql/hrana-client");
  const client = openHttp(url.replace(/^libsql:/, "https:"), authToken, fetchAnswer);
  // A stream for each statement: an open one would keep its place on the server.
  const query = async (statement: string | Query) => {
    const stream = client.openStream();
    const answer = stream.query(typeof statement === "string" ? statement : [statement.sql, statement.args]);
    // Now, so that the same request closes it.
    stream.closeGracefully();
    return { rows: (await answer).rows as unknown as Row[] };
  };
  return {
    execute: query,
    executeMultiple: async (sql) => void await query(sql),
    close: () => client.close(),
  };
}

/** A token that the server does not accept. */
class RefusedTokenError extends Error {}

async function fetchAnswer(request: Request): Promise<Response> {
  const response = await hostFetch(request, {
    // A redirect would lead to a server that is not configured.
    redirect: "manual",
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const { ok, status, headers } = response;
  if (ok) {
    const bytes = await readAnswer(response, ANSWER_LIMITS, (problem) => new Error(`the answer ${problem}`));
    return new Response(bytes, { headers });
  }
  // Its text may repeat the token.
  await response.body?.cancel();
  const isRefused = status === 401 || status === 403;
  throw new (isRefused ? RefusedTokenError : Error)(`HTTP status ${status}`);
}

async function collectTable(
  local: Client,
  remote: Client,
  sessionId: string,
  table: CollectedTable,
  progress: Progress,
): Promise<number> {
  const { to, columns, key } = table;
  let after = progress.get(to) ?? await prepareTable(remote, table, sessionId);
  let sent = 0;
  for (;;) {
    const rows = await readRowsAfter(local, table, after).catch((cause) => {
      throw new UnreadableError("the ledger cannot be read", { cause });
    });
    progress.set(to, after);
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

/** Creates a table if needed. @returns number of the last row of this session on the server */
async function prepareTable(
  remote: Client,
  { to, key, columns }: CollectedTable,
  sessionId: string,
): Promise<number> {
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

/** Reads the rows of one request. */
async function readRowsAfter(
  local: Client,
  { from, key, columns }: CollectedTable,
  after: number,
): Promise<TextRow[]> {
  const name = `${aliasOf(from)}.${key}`;
  const rest = `FROM ${from} WHERE ${name} > ? ORDER BY ${name} LIMIT ?`;
  const rows: TextRow[] = [];
  for (let chars = 0; rows.length < BATCH_ROWS && chars < SEND_CHARS;) {
    const read = await selectPage(local, columns, rest, [after, READ_ROWS]);
    rows.push(...read);
    after = Number(read.at(-1)?.[key] ?? after);
    // Behind a greater number, its own row would come again and again.
    if (!Number.isSafeInteger(after)) throw { code: "SQLITE_CORRUPT" };
    if (read.length < READ_ROWS) break;
    for (const row of read) for (const column of columns) chars += row[column]?.length ?? 0;
  }
  return rows;
}

/** Name of the rows in a FROM clause. */
function aliasOf(from: string): string {
  return from.slice(from.lastIndexOf(" ") + 1);
}

/**
 * Sends the remaining rows of a session that has ended, and removes its mark.
 *
 * @throws {SbxError} `ledger.collector.unavailable`: the mark stays
 */
export async function collectRest(path: string, sessionId: string): Promise<void> {
  const mark = uncollectedMark(path);
  const { url, auth_token_file } = JSON.parse(await Deno.readTextFile(mark)) as CollectTarget;
  await collect({ path, sessionId, url, authToken: await readToken(auth_token_file) });
  await Deno.remove(mark);
}

/** Reads the token of a collecting server. @throws {SbxError} `ledger.collector.unavailable` */
export async function readToken(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    return (await Deno.readTextFile(file)).trim();
  } catch (cause) {
    throw new SbxError(
      "ledger.collector.unavailable",
      `the collecting server's token ${file} cannot be read`,
      {
        cause,
        hint: "check ledger.auth_token_file of corp.toml",
      },
    );
  }
}

/** Collects until `stop` is called; waits longer after each failure. */
export function startCollecting(
  options: CollectOptions,
  onError?: (error: SbxError) => void,
): { stop(): Promise<void> } {
  const progress: Progress = new Map();
  let stopped = false;
  let wake = () => {};
  const run = async () => {
    let wait = COLLECT_MS;
    while (!stopped) {
      try {
        await collect(options, progress);
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

/** Host of a URL, for messages: the rest may hold a token. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host || "(a file)" : "(no URL)";
}
