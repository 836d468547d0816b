/**
 * Rows of a ledger behind a position, as they leave a machine: lines of the texts and hashes of its chains
 * (docs/design/contracts/12-ledger.md §12). SQLite joins them, because a row that becomes an object costs
 * more than all else of its way.
 */
import type { Client, SqlValue } from "../database.ts";
import { BOUND_VERSION, GENESIS } from "../schema.ts";
import type { ChainHeads } from "../chain.ts";
import { selectText, withLedger } from "./open.ts";

/**
 * Most rows of each chain at once, and `bytes` of their texts after which there are fewer
 * (docs/design/contracts/14-limits.md §14).
 */
const ROWS_MAX = 4096;
export const ROWS_BYTES_MAX = 8 * 1024 * 1024;

/** Rows of the three chains as lines, which begin behind `from` and end at `to`. */
export interface LedgerRows {
  from: ChainHeads;
  to: ChainHeads;
  /** sequence of the last event whose decision is not in the chain; `null`: none is */
  bound_after: number | null;
  /** `e hash event record` */
  events: Uint8Array;
  /** `o hash outcome` */
  outcomes: Uint8Array;
  /** `j hash kind id text`; no text: a body, or a row whose place a later one took */
  journal: Uint8Array;
}

/** True if no chain was cut at a limit: the ledger had no more rows when these were read. */
export function isRest(rows: LedgerRows): boolean {
  return [EVENTS, OUTCOMES, JOURNAL].every(({ name }) =>
    rows.to[name] - rows.from[name] < ROWS_MAX && rows[name].length <= ROWS_BYTES_MAX
  );
}

/** A chain in SQL. */
interface Chain {
  name: keyof ChainLengths;
  table: string;
  key: string;
  /** size of a row's texts in `bytes` */
  size: string;
  /** a row as a line; NULL joins as nothing */
  line: string;
}

const EVENTS: Chain = {
  name: "events",
  table: "entries",
  key: "sequence",
  size: "octet_length(event) + coalesce(octet_length(record), 0)",
  line: "concat('e\t', hash, '\t', event, '\t', record, '\n')",
};
const OUTCOMES: Chain = {
  name: "outcomes",
  table: "outcomes",
  key: "number",
  size: "octet_length(outcome)",
  line: "concat('o\t', hash, '\t', outcome, '\n')",
};
// A row that was ignored or replaced has another hash than the one that the journal names.
const TEXT =
  `CASE kind WHEN 'finding' THEN (SELECT finding FROM findings WHERE finding_id = id AND hash = journal.hash)
  WHEN 'approval' THEN (SELECT record FROM approvals WHERE ask_id = id AND hash = journal.hash)
  WHEN 'statement' THEN (SELECT record FROM statements WHERE statement_id = id AND hash = journal.hash) END`;
const JOURNAL: Chain = {
  name: "journal",
  table: "journal",
  key: "number",
  size: `coalesce(octet_length(${TEXT}), 0)`,
  line: `concat('j\t', hash, '\t', kind, '\t', id, '\t', ${TEXT}, '\n')`,
};

/** Reads the rows behind a position. @param from heads that the ledger had there */
export function readRowsAfter(path: string, from: ChainHeads): Promise<LedgerRows> {
  return withLedger(path, async (client) => {
    const bound_after = await boundAfterOf(client);
    const ends: ChainLengths = {
      events: await endOf(client, EVENTS, from.events),
      outcomes: await endOf(client, OUTCOMES, from.outcomes),
      journal: bound_after === null ? from.journal : await endOf(client, JOURNAL, from.journal),
    };
    const to = await headsAt(client, ends);
    const lines = (chain: Chain) => readLines(client, chain, from[chain.name], ends[chain.name]);
    return {
      from,
      to,
      bound_after,
      events: await lines(EVENTS),
      outcomes: await lines(OUTCOMES),
      journal: await lines(JOURNAL),
    };
  });
}

async function boundAfterOf(client: Client): Promise<number | null> {
  const { rows: [row] } = await client.execute("PRAGMA user_version");
  if (Number(row.user_version) < BOUND_VERSION) return null;
  const [bound] = await selectText(client, ["after_sequence"], "FROM ledger_bound");
  return Number(bound?.after_sequence ?? 0);
}

/** Last row of a chain that is read now: at least one, and no more than fit. */
async function endOf(client: Client, { table, key, size }: Chain, after: number): Promise<number> {
  const page =
    `(SELECT ${key} AS place, ${size} AS size FROM ${table} WHERE ${key} > ? ORDER BY ${key} LIMIT ?)`;
  const all = await numbers(client, `SELECT max(place) AS last, sum(size) AS size FROM ${page}`, [
    after,
    ROWS_MAX,
  ]);
  if (all.last === undefined) return after;
  if (all.size! <= ROWS_BYTES_MAX) return all.last;
  // Counted row by row only where there are too many: the sum of all rows before each one, without its own.
  const { last } = await numbers(
    client,
    `SELECT max(place) AS last FROM (SELECT place, sum(size) OVER (ORDER BY place) - size AS before FROM ${page})
      WHERE before < ?`,
    [after, ROWS_MAX, ROWS_BYTES_MAX],
  );
  return last!;
}

async function numbers(
  client: Client,
  sql: string,
  args: SqlValue[],
): Promise<{ last?: number; size?: number }> {
  const { rows: [row] } = await client.execute({ sql, args });
  if (row.last === null) return {};
  return { last: Number(row.last), size: Number(row.size) };
}

async function readLines(
  client: Client,
  { table, key, line }: Chain,
  after: number,
  end: number,
): Promise<Uint8Array> {
  if (end === after) return new Uint8Array();
  const { rows: [row] } = await client.execute({
    // As bytes: text ends at a NUL.
    sql: `SELECT CAST(group_concat(line, '') AS BLOB) AS lines
      FROM (SELECT ${line} AS line FROM ${table} WHERE ${key} > ? AND ${key} <= ? ORDER BY ${key})`,
    args: [after, end],
  });
  return row.lines as Uint8Array;
}

// Heads of a ledger's chains, now and at an earlier length: a kept head later shows whether anything before
// it changed.

/** Lengths of the chains. */
export type ChainLengths = Pick<ChainHeads, "events" | "outcomes" | "journal">;

/** Reads the heads of a ledger, which may be written to meanwhile: each chain is read at one length. */
export function readHeads(path: string): Promise<ChainHeads> {
  return withLedger(path, async (client) => await headsAt(client, await lengthsOf(client)));
}

/**
 * Reads the heads that a ledger had at these lengths; a hash is "" where the chain is shorter.
 * Says nothing of the rows before.
 */
export function readHeadsAt(path: string, lengths: ChainLengths): Promise<ChainHeads> {
  return withLedger(path, (client) => headsAt(client, lengths));
}

/**
 * Reads the heads that a ledger had at several lengths, and the ones that it has now, in one reading.
 * @returns hashes in the order of `all`, as of {@linkcode readHeadsAt}
 */
export function readHeadsAtEach(
  path: string,
  all: readonly ChainLengths[],
): Promise<{ now: ChainHeads; then: ChainHeads[] }> {
  return withLedger(path, async (client) => {
    const [now, ...then] = await headsAtEach(client, [await lengthsOf(client), ...all]);
    return { now, then };
  });
}

/** Column of the hash that the event after a row follows. */
function eventHead(bound: boolean): string {
  return bound
    ? "iif(sequence > (SELECT after_sequence FROM ledger_bound), coalesce(record_hash, hash), hash)"
    : "hash";
}

export async function lengthsOf(client: Client): Promise<ChainLengths> {
  const last = async (table: string, key: string) => {
    const [row] = await selectText(client, ["last"], `FROM (SELECT max(${key}) AS last FROM ${table})`);
    return Number(row.last ?? 0);
  };
  return {
    events: await last("entries", "sequence"),
    outcomes: await last("outcomes", "number"),
    journal: await isBound(client) ? await last("journal", "number") : 0,
  };
}

async function headsAt(client: Client, lengths: ChainLengths): Promise<ChainHeads> {
  return (await headsAtEach(client, [lengths]))[0];
}

async function headsAtEach(client: Client, all: readonly ChainLengths[]): Promise<ChainHeads[]> {
  const bound = await isBound(client);
  const hashes = async (table: string, key: string, column: string, at: number[]) => {
    const rows = await selectText(
      client,
      ["place", "head"],
      `FROM (SELECT ${key} AS place, ${column} AS head FROM ${table}
         WHERE ${key} IN (SELECT value FROM json_each(?)))`,
      [JSON.stringify(at)],
    );
    return new Map([...rows.map(({ place, head }) => [Number(place), head ?? ""] as const), [0, GENESIS]]);
  };
  const events = await hashes("entries", "sequence", eventHead(bound), all.map(({ events }) => events));
  const outcomes = await hashes("outcomes", "number", "hash", all.map(({ outcomes }) => outcomes));
  const journal = bound && await hashes("journal", "number", "link", all.map(({ journal }) => journal));
  return all.map((at) => ({
    events: at.events,
    head_hash: events.get(at.events) ?? "",
    outcomes: at.outcomes,
    outcome_hash: outcomes.get(at.outcomes) ?? "",
    journal: at.journal,
    journal_hash: journal ? journal.get(at.journal) ?? "" : GENESIS,
  }));
}

/** True if decisions, findings and answers are in chains: not in ledgers of before. */
async function isBound(client: Client): Promise<boolean> {
  const { rows: [row] } = await client.execute("PRAGMA user_version");
  return Number(row.user_version) >= BOUND_VERSION;
}
