import type { Client } from "@libsql/client/sqlite3";
import { canonicalJson, type Event } from "../event/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import { digestText } from "./digest.ts";
import type { LedgerDecision, LedgerOutcome } from "./entry.ts";
import { ledgerError } from "./failure.ts";
import { openDatabase } from "./open.ts";
import { EVENT_COLUMNS, GENESIS, OUTCOME_COLUMNS } from "./schema.ts";
import { readSeal, sealBroken } from "./seal.ts";
import { selectText, type TextRow } from "./text.ts";

/** What `sbx verify` says of one ledger. */
export interface Verification {
  ok: boolean;
  /** events that are good, counted from the first */
  events: number;
  /** whether there is a seal, which also proves where the record ends, its findings and its approvals */
  sealed: boolean;
  /** the first thing that is wrong */
  first_bad?: { sequence?: number; event_id?: string; reason: string };
}

type Bad = Verification["first_bad"];

/** Rows read at a time: an event can be a megabyte, and a body is whatever was kept of one. */
const PAGE_ROWS = 100;
const PAGE_BODIES = 16;

/**
 * Checks a ledger offline (contracts.md §12): every event and outcome against its hash and the chain, every column, decision
 * record, finding, approval and body against what it was made from, then SQLite's own structure, then the seal.
 *
 * @throws SbxError `ledger.not_found`
 */
export async function verifyLedger(path: string): Promise<Verification> {
  const client = openDatabase(path);
  const state: ChainState = { sequence: 0, hash: GENESIS };
  const outcomes: ChainState = { sequence: 0, hash: GENESIS };
  let bad: Bad;
  try {
    bad = await badChain(client, EVENTS, state) ??
      await badChain(client, OUTCOMES, outcomes) ??
      await badRecord(client, "findings", ["finding_id", "event_id", "rule_id"], "finding") ??
      await badRecord(client, "approvals", ["ask_id", "event_id"], "record") ??
      await badBody(client) ??
      await badStructure(client);
  } catch (error) {
    bad = { sequence: state.sequence + 1, reason: ledgerError(error, path, "read").message };
  } finally {
    client.close();
  }
  const seal = await readSeal(path);
  if (!bad && seal !== undefined) {
    const reason = await sealBroken(path, seal, {
      events: state.sequence,
      head_hash: state.hash,
      outcomes: outcomes.sequence,
      outcome_hash: outcomes.hash,
    });
    if (reason) bad = { reason };
  }
  return { ok: !bad, events: state.sequence, sealed: seal !== undefined, ...(bad && { first_bad: bad }) };
}

/** How far a chain is good. */
interface ChainState {
  sequence: number;
  hash: string;
}

/** One of the two chains: where its rows are, and what is wrong with one of them. */
interface Chain {
  what: string;
  table: string;
  key: string;
  columns: readonly string[];
  wrong(row: TextRow): string | undefined;
}

const EVENTS: Chain = {
  what: "event",
  table: "entries",
  key: "sequence",
  columns: EVENT_COLUMNS,
  wrong: wrongEvent,
};
const OUTCOMES: Chain = {
  what: "outcome",
  table: "outcomes",
  key: "number",
  columns: OUTCOME_COLUMNS,
  wrong: wrongOutcome,
};

async function badChain(client: Client, chain: Chain, state: ChainState): Promise<Bad> {
  const { table, key, columns } = chain;
  for (let rows = PAGE_ROWS;;) {
    let page: TextRow[];
    try {
      page = await selectText(
        client,
        columns,
        `FROM ${table} WHERE ${table}.${key} > ? ORDER BY ${table}.${key} LIMIT ?`,
        [state.sequence, rows],
      );
    } catch (error) {
      // A page that cannot be read as a whole is read row by row, so that the first bad one gets its name.
      if (rows === 1) throw error;
      rows = 1;
      continue;
    }
    if (!page.length) return undefined;
    for (const row of page) {
      const number = state.sequence + 1;
      const place = chain === EVENTS && { sequence: number };
      if (row[key] !== String(number)) return { ...place, reason: `${chain.what} ${number} is missing` };
      const reason = row.prev_hash === state.hash
        ? chain.wrong(row)
        : `its prev_hash is not the hash of the ${chain.what} before`;
      if (reason) return { ...place, event_id: row.event_id ?? "", reason };
      state.sequence = number;
      state.hash = row.hash!;
    }
  }
}

function wrongEvent(row: TextRow): string | undefined {
  if (digestText(row.event!, row.prev_hash!) !== row.hash) return "its hash is not that of the event";
  const event = parsed<Event>(row.event);
  if (!event?.common || canonicalJson(event) !== row.event) return "the event is not canonical JSON";
  if (String(event.common.sequence) !== row.sequence) return "sequence is not the event's";
  if (event.common.event_id !== row.event_id) return "event_id is not the event's";
  if (event.common.event_type !== row.event_type) return "event_type is not the event's";
  if (row.record === null) {
    const alone = row.decision === null && row.rule_id === null && row.record_hash === null;
    return alone ? undefined : "it has a decision without a record";
  }
  if (digestText(row.record, row.hash!) !== row.record_hash) {
    return "the decision record is not what was written";
  }
  const record = parsed<LedgerDecision>(row.record);
  if (record?.decision !== row.decision) return "decision is not the record's";
  return (record?.rule?.id ?? null) === row.rule_id ? undefined : "rule_id is not the record's";
}

function wrongOutcome(row: TextRow): string | undefined {
  if (digestText(row.outcome!, row.prev_hash!) !== row.hash) return "its outcome is not what was written";
  const outcome = parsed<LedgerOutcome & { number: number }>(row.outcome);
  if (String(outcome?.number) !== row.number) return "the number of its outcome is another";
  if (outcome?.event_id !== row.event_id) return "its outcome is another event's";
  return (outcome.decision?.decision ?? null) === row.decision
    ? undefined
    : "the decision of its outcome is not what was written";
}

/** Rows whose JSON in column `json` has a hash, and which repeat `keys` of it. */
async function badRecord(client: Client, table: string, keys: string[], json: string): Promise<Bad> {
  for (const row of await selectText(client, [...keys, json, "hash"], `FROM ${table} ORDER BY rowid`)) {
    const said = parsed<Record<string, unknown>>(row[json]);
    if (digestText(row[json] ?? "") !== row.hash || keys.some((key) => said?.[key] !== row[key])) {
      return {
        event_id: row.event_id ?? "",
        reason: `row ${row[keys[0]]} of ${table} is not what was written`,
      };
    }
  }
}

async function badBody(client: Client): Promise<Bad> {
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
        return { reason: `body ${name} is not what was written` };
      }
      after = row as number;
    }
  }
}

async function badStructure(client: Client): Promise<Bad> {
  const { rows } = await client.execute(
    "SELECT CAST(integrity_check AS BLOB) = CAST('ok' AS BLOB) AS ok FROM pragma_integrity_check(1)",
  );
  return rows[0]?.ok === 1 ? undefined : { reason: "the structure of the database is damaged" };
}

function parsed<T>(text: string | null): T | undefined {
  try {
    return JSON.parse(text!) as T;
  } catch {
    return undefined;
  }
}
