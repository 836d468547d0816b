/** Chains of a ledger, as `sbx verify` checks them. */
import type { Client } from "@libsql/client/sqlite3";
import { canonicalJson } from "../../base/json/mod.ts";
import type { Event } from "../../event/mod.ts";
import { digestText, journalLink } from "../link.ts";
import type { LedgerDecision, LedgerOutcome } from "../entry.ts";
import { EVENT_COLUMNS, JOURNAL_COLUMNS, OUTCOME_COLUMNS } from "../schema.ts";
import { parseJson, selectText, type TextRow } from "./text.ts";

/** Key that signed a seal. One that is not trusted proves nothing. */
export interface SealSigner {
  id: string;
  trusted: boolean;
}

/** First problem of a check; `undefined` without a problem. */
export type Problem = Verification["first_bad"];

/** Report of `sbx verify` on one ledger. */
export interface Verification {
  ok: boolean;
  /** number of good events, counted from the first */
  events: number;
  /** the ledger has a seal, which also proves its end, its findings and its approvals */
  sealed: boolean;
  /** key that signed the seal; absent: the seal is not signed, or nothing could check it */
  signed_by?: SealSigner;
  /** first problem */
  first_bad?: { sequence?: number; event_id?: string; reason: string };
}

/** Rows read at a time: an event can have a megabyte. */
const PAGE_ROWS = 100;

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
interface ChainTable {
  /** noun for messages */
  noun: string;
  table: string;
  key: string;
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
  columns: EVENT_COLUMNS,
  check: checkEvent,
  link: ({ sequence, hash, record_hash }, { boundAfter }) =>
    Number(sequence) > boundAfter ? record_hash ?? hash : hash,
};
export const OUTCOMES: ChainTable = {
  noun: "outcome",
  table: "outcomes",
  key: "number",
  columns: OUTCOME_COLUMNS,
  check: checkOutcome,
  link: ({ hash }) => hash,
};
export const JOURNAL: ChainTable = {
  noun: "row of the journal",
  table: "journal",
  key: "number",
  columns: JOURNAL_COLUMNS,
  check: ({ kind, id, hash, prev_hash, link }) =>
    journalLink(kind!, id!, hash!, prev_hash!) === link ? undefined : "a row of the journal was changed",
  link: ({ link }) => link,
};

const NO_TERMS: ChainTerms = { owner: "", boundAfter: 0 };

/** Checks the rows of a chain, and counts the good ones in `state`. */
export async function checkChain(
  client: Client,
  chain: ChainTable,
  state: ChainState,
  terms = NO_TERMS,
): Promise<Problem> {
  const { noun, table, key, columns } = chain;
  for (let rows = PAGE_ROWS;;) {
    let page: TextRow[];
    try {
      page = await selectText(
        client,
        columns,
        `FROM ${table} WHERE ${table}.${key} > ? ORDER BY ${table}.${key} LIMIT ?`,
        [state.length, rows],
      );
    } catch (error) {
      // A page that cannot be read is read row by row, to find the first bad one.
      if (rows === 1) throw error;
      rows = 1;
      continue;
    }
    if (!page.length) return undefined;
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
