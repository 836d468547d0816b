/** Checks rows of a ledger's chains: each against its hash, its columns and the row before. */
import type { Client } from "../database.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { Event } from "../../event/mod.ts";
import { digestText, journalLink } from "../chain.ts";
import type { Break } from "../witness/mod.ts";
import {
  EVENT_COLUMNS,
  GENESIS,
  JOURNAL_COLUMNS,
  type LedgerDecision,
  type LedgerOutcome,
  OUTCOME_COLUMNS,
} from "../schema.ts";
import { parseJson, selectPage, type TextRow } from "./open.ts";

/** Rows of a chain's first page, and of later ones. */
const PAGE_ROWS = 100, PAGE_ROWS_MIN = 10, PAGE_ROWS_MAX = 500;
/** Characters that a page is meant to have: an event can have a megabyte. */
const PAGE_LENGTH = 2 ** 21;

/** The good part of a chain. */
export interface ChainState {
  /** rows */
  length: number;
  /** hash of the last row */
  hash: string;
}

/** Expected values for the rows of a chain. */
export interface ChainTerms {
  /** session of the ledger */
  owner: string;
  /** sequence of the last event whose decision is not bound */
  boundAfter: number;
}

/** Table of a chain. */
export interface ChainTable {
  /** noun for messages */
  noun: string;
  table: string;
  key: string;
  /** the column that can be long */
  content: string;
  columns: readonly string[];
  /** Checks one row. @returns its first problem */
  check(row: TextRow, terms: ChainTerms): string | undefined;
  /** hash that the next row follows */
  link(row: TextRow, terms: ChainTerms): string | null;
}

export const EVENTS: ChainTable = {
  noun: "event",
  table: "entries",
  key: "sequence",
  content: "event",
  columns: EVENT_COLUMNS,
  check: checkEvent,
  link: ({ sequence, hash, record_hash }, { boundAfter }) =>
    Number(sequence) > boundAfter ? record_hash ?? hash : hash,
};

export const OUTCOMES: ChainTable = {
  noun: "outcome",
  table: "outcomes",
  key: "number",
  content: "outcome",
  columns: OUTCOME_COLUMNS,
  check: checkOutcome,
  link: ({ hash }) => hash,
};

export const JOURNAL: ChainTable = {
  noun: "row of the journal",
  table: "journal",
  key: "number",
  content: "id",
  columns: JOURNAL_COLUMNS,
  check: ({ kind, id, hash, prev_hash, link }) =>
    journalLink(kind!, id!, hash!, prev_hash!) === link ? undefined : "a row of the journal was changed",
  link: ({ link }) => link,
};

const NO_TERMS: ChainTerms = { owner: "", boundAfter: 0 };

/** First problem of a ledger. */
export interface Problem {
  sequence?: number;
  event_id?: string;
  reason: string;
  /** code of a difference from the heads that the service has witnessed */
  code?: Break["code"];
}

/** Rows of a chain that a thread of its own checks. */
export interface Rest {
  /** the row before them */
  start: ChainState;
  /** their last row; `undefined`: not all of them are good, or the thread failed */
  end: Promise<ChainState | undefined>;
}

export const newState = (): ChainState => ({ length: 0, hash: GENESIS });

/**
 * Checks the rows of a chain, and counts the good ones in `state`.
 *
 * @param rest rows that need no second check if the thread finds them good and those before them are too
 */
export async function checkChain(
  client: Client,
  chain: ChainTable,
  state: ChainState,
  terms = NO_TERMS,
  rest?: Rest,
): Promise<Problem | undefined> {
  if (rest) {
    const problem = await checkRows(client, chain, state, terms, rest.start.length);
    if (problem) return problem;
    const end = await rest.end;
    if (end && state.length === rest.start.length && state.hash === rest.start.hash) {
      Object.assign(state, end);
    }
  }
  return await checkRows(client, chain, state, terms);
}

/** @param until row after which it stops */
async function checkRows(
  client: Client,
  chain: ChainTable,
  state: ChainState,
  terms: ChainTerms,
  until = Infinity,
): Promise<Problem | undefined> {
  const { noun, table, key, content, columns } = chain;
  for (let rows = PAGE_ROWS; state.length < until;) {
    let page: TextRow[];
    try {
      page = await selectPage(
        client,
        columns,
        `FROM ${table} WHERE ${table}.${key} > ? ORDER BY ${table}.${key} LIMIT ?`,
        // Before its first row a chain has none, also none with a negative number.
        [state.length || -Infinity, Math.min(rows, until - state.length)],
      );
    } catch (error) {
      // A page that cannot be read is read row by row, to find the first bad one.
      if (rows === 1) throw error;
      rows = 1;
      continue;
    }
    if (!page.length) return undefined;
    if (rows > 1) {
      const length = page.reduce((sum, row) => sum + (row[content]?.length ?? 0), 1);
      rows = Math.max(PAGE_ROWS_MIN, Math.min(PAGE_ROWS_MAX, Math.floor(PAGE_LENGTH * page.length / length)));
    }
    for (const row of page) {
      const number = state.length + 1;
      const place = chain === EVENTS && { sequence: number };
      if (row[key] !== String(number)) return { ...place, reason: `${noun} ${number} is missing` };
      const reason = row.prev_hash === state.hash
        ? chain.check(row, terms)
        : `prev_hash is not the hash of the ${noun} before`;
      if (reason) return { ...place, event_id: row.event_id ?? "", reason };
      state.length = number;
      state.hash = chain.link(row, terms)!;
    }
  }
}

/** State of a chain after a row, as the row says; `undefined`: there is no such row. */
export async function stateAt(
  client: Client,
  { table, key, columns, link }: ChainTable,
  length: number,
  terms: ChainTerms,
): Promise<ChainState | undefined> {
  if (length === 0) return newState();
  const [row] = await selectPage(client, columns, `FROM ${table} WHERE ${key} = ?`, [length]);
  return row && { length, hash: link(row, terms) ?? "" };
}

function checkEvent(row: TextRow, { owner }: ChainTerms): string | undefined {
  if (digestText(row.event!, row.prev_hash!) !== row.hash) return "the hash does not match the event";
  const event = parseJson<Event>(row.event);
  if (!event?.common || canonicalJson(event) !== row.event) return "the event is not canonical JSON";
  if (String(event.common.sequence) !== row.sequence) return "column sequence differs from the event";
  if (event.common.session_id !== owner) return `the event is one of session ${event.common.session_id}`;
  if (event.common.event_id !== row.event_id) return "column event_id differs from the event";
  if (event.common.event_type !== row.event_type) return "column event_type differs from the event";
  if (row.record === null) {
    const undecided = row.decision === null && row.rule_id === null && row.record_hash === null;
    return undecided ? undefined : "the event has a decision without a record";
  }
  if (digestText(row.record, row.hash!) !== row.record_hash) {
    return "record_hash does not match the decision record";
  }
  const record = parseJson<LedgerDecision>(row.record);
  if (record?.decision !== row.decision) return "column decision differs from the decision record";
  return (record?.rule?.id ?? null) === row.rule_id
    ? undefined
    : "column rule_id differs from the decision record";
}

function checkOutcome(row: TextRow): string | undefined {
  if (digestText(row.outcome!, row.prev_hash!) !== row.hash) return "the hash does not match the outcome";
  const outcome = parseJson<LedgerOutcome & { number: number }>(row.outcome);
  if (String(outcome?.number) !== row.number) return "column number differs from the outcome";
  if (outcome?.event_id !== row.event_id) return "column event_id differs from the outcome";
  return (outcome.decision?.decision ?? null) === row.decision
    ? undefined
    : "column decision differs from the outcome";
}
