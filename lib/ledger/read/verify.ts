import type { Client } from "@libsql/client/sqlite3";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson, type Event } from "../../event/mod.ts";
import { digestText } from "../digest.ts";
import type { LedgerDecision, LedgerOutcome } from "../entry.ts";
import { ledgerError } from "../failure.ts";
import { EVENT_COLUMNS, GENESIS, OUTCOME_COLUMNS } from "../schema.ts";
import { findSealMismatch, readSeal } from "../seal.ts";
import { openLedger } from "./open.ts";
import { selectText, type TextRow } from "./text.ts";

/** Report of `sbx verify` on one ledger. */
export interface Verification {
  ok: boolean;
  /** number of good events, counted from the first */
  events: number;
  /** the ledger has a seal, which also proves its end, its findings and its approvals */
  sealed: boolean;
  /** first problem */
  first_bad?: { sequence?: number; event_id?: string; reason: string };
}

type Problem = Verification["first_bad"];

/** Rows read at a time: an event can have a megabyte, and bodies have any size. */
const PAGE_ROWS = 100;
const PAGE_BODIES = 16;

/**
 * Verifies a ledger offline (docs/contracts.md §12): events and outcomes against their hashes and chains; columns, decision
 * records, findings, approvals and bodies against their sources; the structure of the database; the seal.
 *
 * @throws {SbxError} `ledger.not_found`, `ledger.version.conflict`, `ledger.unavailable`
 */
export async function verifyLedger(path: string): Promise<Verification> {
  const events: ChainState = { length: 0, hash: GENESIS };
  const outcomes: ChainState = { length: 0, hash: GENESIS };
  let client: Client | undefined;
  let problem: Problem;
  try {
    client = await openLedger(path);
    problem = await checkChain(client, EVENTS, events) ??
      await checkChain(client, OUTCOMES, outcomes) ??
      await checkRecords(client, "findings", ["finding_id", "event_id", "rule_id"], "finding") ??
      await checkRecords(client, "approvals", ["ask_id", "event_id"], "record") ??
      await checkBodies(client) ??
      await checkStructure(client);
  } catch (error) {
    if (error instanceof SbxError) throw error;
    problem = { sequence: events.length + 1, reason: ledgerError(error, path, "read").message };
  } finally {
    client?.close();
  }
  const seal = await readSeal(path);
  if (!problem && seal !== undefined) {
    const reason = await findSealMismatch(path, seal, {
      events: events.length,
      head_hash: events.hash,
      outcomes: outcomes.length,
      outcome_hash: outcomes.hash,
    });
    if (reason) problem = { reason };
  }
  return {
    ok: !problem,
    events: events.length,
    sealed: seal !== undefined,
    ...(problem && { first_bad: problem }),
  };
}

/** The good part of a chain. */
interface ChainState {
  /** rows */
  length: number;
  /** hash of the last row */
  hash: string;
}

/** Table of one of the two chains. */
interface ChainTable {
  /** noun for messages */
  noun: string;
  table: string;
  key: string;
  columns: readonly string[];
  /** Checks one row. @returns its first problem */
  check(row: TextRow): string | undefined;
}

const EVENTS: ChainTable = {
  noun: "event",
  table: "entries",
  key: "sequence",
  columns: EVENT_COLUMNS,
  check: checkEvent,
};
const OUTCOMES: ChainTable = {
  noun: "outcome",
  table: "outcomes",
  key: "number",
  columns: OUTCOME_COLUMNS,
  check: checkOutcome,
};

/** Checks the rows of a chain, and counts the good ones in `state`. */
async function checkChain(client: Client, chain: ChainTable, state: ChainState): Promise<Problem> {
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
        ? chain.check(row)
        : `prev_hash is not the hash of the ${noun} before`;
      if (reason) return { ...place, event_id: row.event_id ?? "", reason };
      state.length = number;
      state.hash = row.hash!;
    }
  }
}

function checkEvent(row: TextRow): string | undefined {
  if (digestText(row.event!, row.prev_hash!) !== row.hash) return "the hash does not match the event";
  const event = parseJson<Event>(row.event);
  if (!event?.common || canonicalJson(event) !== row.event) return "the event is not canonical JSON";
  if (String(event.common.sequence) !== row.sequence) return "column sequence differs from the event";
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

/**
 * Checks rows with JSON and its hash.
 *
 * @param keys columns that repeat members of the JSON, the row's id first
 * @param json column of the JSON
 */
async function checkRecords(client: Client, table: string, keys: string[], json: string): Promise<Problem> {
  for (const row of await selectText(client, [...keys, json, "hash"], `FROM ${table} ORDER BY rowid`)) {
    const record = parseJson<Record<string, unknown>>(row[json]);
    if (digestText(row[json] ?? "") !== row.hash || keys.some((key) => record?.[key] !== row[key])) {
      return { event_id: row.event_id ?? "", reason: `row ${row[keys[0]]} of ${table} was changed` };
    }
  }
}

async function checkBodies(client: Client): Promise<Problem> {
  for (let after = 0;;) {
    const { rows } = await client.execute({
      sql: `SELECT rowid AS row, CAST(hash AS BLOB) AS hash, CAST(bytes AS BLOB) AS bytes FROM body_blobs
              WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE_BODIES}`,
      args: [after],
    });
    if (!rows.length) return undefined;
    for (const { row, hash, bytes } of rows) {
      const name = new TextDecoder().decode(hash as ArrayBuffer);
      if (blake3(new Uint8Array(bytes as ArrayBuffer)) !== name) {
        return { reason: `body ${name} was changed` };
      }
      after = row as number;
    }
  }
}

async function checkStructure(client: Client): Promise<Problem> {
  const { rows } = await client.execute(
    "SELECT CAST(integrity_check AS BLOB) = CAST('ok' AS BLOB) AS ok FROM pragma_integrity_check(1)",
  );
  return rows[0]?.ok === 1 ? undefined : { reason: "the structure of the database is damaged" };
}

function parseJson<T>(text: string | null): T | undefined {
  try {
    return JSON.parse(text!) as T;
  } catch {
    return undefined;
  }
}
