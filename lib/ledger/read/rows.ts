/** Rows of a ledger behind a position, as they leave a machine: texts with the hashes that its chains have (docs/contracts.md §12). */
import type { Client } from "@libsql/client/sqlite3";
import { BOUND_VERSION, type JournalKind } from "../schema.ts";
import type { ChainHeads } from "../seal.ts";
import { withLedger } from "./open.ts";
import { selectText, type TextRow } from "./text.ts";

/** Most rows of each chain at once, and characters of their JSON after which fewer are read. */
const ROWS_MAX = 2000;
const CHARS_MAX = 2 * 1024 * 1024;
/** Rows read at a time: an event can have a megabyte. */
const READ_ROWS = 250;

/** A row of a chain. */
export interface ChainRow {
  text: string;
  hash: string;
}

/** An event, with its decision record where it has one. */
export interface EventRow extends ChainRow {
  record: string | null;
}

/** A finding, an answer, a statement or a body. */
export interface JournalRow {
  kind: JournalKind;
  id: string;
  hash: string;
  /** `null` for bodies, and where a later row took its place */
  text: string | null;
}

/** Rows of the three chains, which begin behind `from` and end at `to`. */
export interface LedgerRows {
  from: ChainHeads;
  to: ChainHeads;
  /** sequence of the last event whose decision is not in the chain; `null`: none is */
  bound_after: number | null;
  events: EventRow[];
  outcomes: ChainRow[];
  journal: JournalRow[];
}

/** Reads the rows behind a position. @param from heads that the ledger had there */
export function readRowsAfter(path: string, from: ChainHeads): Promise<LedgerRows> {
  return withLedger(path, async (client) => {
    const bound_after = await boundAfterOf(client);
    const events = await readEventRows(client, from.events);
    const outcomes = await readPage(
      client,
      ["number", "outcome", "hash"],
      "outcomes",
      "number",
      from.outcomes,
    );
    const journal = bound_after === null ? [] : await readJournal(client, from.journal);
    const last = events.at(-1);
    const isBound = bound_after !== null && Number(last?.sequence) > bound_after;
    return {
      from,
      to: {
        events: Number(last?.sequence ?? from.events),
        head_hash: last ? (isBound && last.record_hash) || last.hash! : from.head_hash,
        outcomes: Number(outcomes.at(-1)?.number ?? from.outcomes),
        outcome_hash: outcomes.at(-1)?.hash ?? from.outcome_hash,
        journal: Number(journal.at(-1)?.number ?? from.journal),
        journal_hash: journal.at(-1)?.link ?? from.journal_hash,
      },
      bound_after,
      events: events.map(({ event, hash, record }) => ({ text: event!, hash: hash!, record })),
      outcomes: outcomes.map(({ outcome, hash }) => ({ text: outcome!, hash: hash! })),
      journal: journal.map(({ kind, id, hash, text }) => ({
        kind: kind as JournalKind,
        id: id!,
        hash: hash!,
        text,
      })),
    };
  });
}

async function boundAfterOf(client: Client): Promise<number | null> {
  const { rows: [row] } = await client.execute("PRAGMA user_version");
  if (Number(row.user_version) < BOUND_VERSION) return null;
  const [bound] = await selectText(client, ["after_sequence"], "FROM ledger_bound");
  return Number(bound?.after_sequence ?? 0);
}

function readEventRows(client: Client, after: number): Promise<TextRow[]> {
  const columns = ["sequence", "event", "hash", "record", "record_hash"];
  return readPage(client, columns, "entries", "sequence", after);
}

async function readJournal(client: Client, after: number): Promise<TextRow[]> {
  // A row that was ignored or replaced has another hash than the one that the journal names.
  const texts = `SELECT finding FROM findings WHERE finding_id = id AND hash = journal.hash`;
  const text = `CASE kind WHEN 'finding' THEN (${texts})
    WHEN 'approval' THEN (SELECT record FROM approvals WHERE ask_id = id AND hash = journal.hash)
    WHEN 'statement' THEN (SELECT record FROM statements WHERE statement_id = id AND hash = journal.hash) END`;
  const from = `(SELECT number, kind, id, hash, link, ${text} AS text FROM journal) AS bound`;
  return await readPage(client, ["number", "kind", "id", "hash", "link", "text"], from, "number", after);
}

async function readPage(
  client: Client,
  columns: readonly string[],
  from: string,
  key: string,
  after: number,
): Promise<TextRow[]> {
  const rows: TextRow[] = [];
  for (let chars = 0; rows.length < ROWS_MAX && chars < CHARS_MAX;) {
    const name = from === "entries" || from === "outcomes" ? `${from}.${key}` : `bound.${key}`;
    const page = await selectText(
      client,
      columns,
      `FROM ${from} WHERE ${name} > ? ORDER BY ${name} LIMIT ?`,
      [
        after,
        READ_ROWS,
      ],
    );
    for (const row of page) {
      chars += (row.event ?? row.outcome ?? row.text ?? "").length + (row.record?.length ?? 0);
      rows.push(row);
    }
    if (page.length < READ_ROWS) break;
    after = Number(page.at(-1)![key]);
  }
  return rows;
}
