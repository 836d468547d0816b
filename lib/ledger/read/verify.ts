/** Checks a ledger: its chains, its other rows and its seal, as `sbx verify` does. */
import type { Client } from "@libsql/client/sqlite3";
import { basename, dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { ledgerError } from "../failure.ts";
import {
  BOUND_VERSION,
  EVENT_COLUMNS,
  GENESIS,
  JOURNAL_COLUMNS,
  type LedgerDecision,
  type LedgerOutcome,
  OUTCOME_COLUMNS,
} from "../schema.ts";
import { openLedger, parseJson, selectPage, selectText, type TextRow, withLedger } from "./open.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { Event } from "../../event/mod.ts";
import { digestText, findSealMismatch, journalLink, readSeal } from "../chain.ts";
import { blake3 } from "../../base/hash/mod.ts";

/** Key that signed a seal. One that is not trusted proves nothing. */
export interface SealSigner {
  id: string;
  trusted: boolean;
}

/** First problem of a check; `undefined` without a problem. */
type Problem = Verification["first_bad"];

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

/** Checks the signature of a sealed ledger. */
export interface SealCheck {
  /** @returns the signer; `undefined`: the seal is not signed @throws {SbxError} the signature is not valid */
  (text: string): Promise<SealSigner | undefined>;
}

/** Errors of the database that are not about the file's content. */
const UNREADABLE = /^SQLITE_(READONLY|CANTOPEN|BUSY|LOCKED|PERM|FULL|NOMEM)/;

/** Folder of a session's ledger is named by the session. */
const SESSION_FOLDER = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Verifies a ledger offline (docs/design/contracts/12-ledger.md §12): that it is this session's; events with
 * their decisions, outcomes and the journal against their hashes and chains; columns, findings, answers and
 * bodies against their sources; the structure of the database; the seal.
 *
 * @param expected session that the ledger must belong to; by default the one that its folder is named by, if it is
 * @param checkSeal checks the signature of the seal
 * @throws {SbxError} `ledger.not_found`, `ledger.version.conflict`, `ledger.unavailable`
 */
export async function verifyLedger(
  path: string,
  expected = sessionOfFolder(path),
  checkSeal?: SealCheck,
): Promise<Verification> {
  const [events, outcomes, journal] = [newState(), newState(), newState()];
  let client: Client | undefined;
  let problem: Problem;
  let owner = "";
  try {
    client = await openLedger(path);
    const isBound = await versionOf(client) >= BOUND_VERSION;
    owner = await ownerOf(client);
    const boundAfter = isBound ? await boundAfterOf(client) : Infinity;
    problem = checkOwner(owner, expected) ??
      await checkChain(client, EVENTS, events, { owner, boundAfter }) ??
      await checkChain(client, OUTCOMES, outcomes) ??
      await checkRecords(client, "findings", ["finding_id", "event_id", "rule_id"], "finding") ??
      await checkRecords(client, "approvals", ["ask_id", "event_id"], "record") ??
      await checkRecords(client, "statements", ["statement_id", "kind"], "record") ??
      await checkBodies(client) ??
      (isBound ? await checkChain(client, JOURNAL, journal) ?? await checkBound(client) : undefined) ??
      await checkReferences(client) ??
      await checkStructure(client);
  } catch (error) {
    if (error instanceof SbxError) throw error;
    // A failed read proves nothing about a record.
    if (UNREADABLE.test((error as { code?: string }).code ?? "")) throw ledgerError(error, path, "read");
    problem = { sequence: events.length + 1, reason: ledgerError(error, path, "read").message };
  } finally {
    client?.close();
  }
  const seal = await readSeal(path);
  let signer: SealSigner | undefined;
  if (!problem && seal !== undefined) {
    try {
      signer = await checkSeal?.(seal);
    } catch (error) {
      problem = { reason: (error as Error).message };
    }
    const reason = problem?.reason ?? await findSealMismatch(path, seal, owner, {
      events: events.length,
      head_hash: events.hash,
      outcomes: outcomes.length,
      outcome_hash: outcomes.hash,
      journal: journal.length,
      journal_hash: journal.hash,
    });
    if (reason) problem = { reason };
  }
  return {
    ok: !problem,
    events: events.length,
    sealed: seal !== undefined,
    ...(signer && { signed_by: signer }),
    ...(problem && { first_bad: problem }),
  };
}

const newState = (): ChainState => ({ length: 0, hash: GENESIS });

function sessionOfFolder(path: string): string | undefined {
  const name = basename(dirname(resolve(path)));
  return SESSION_FOLDER.test(name) ? name : undefined;
}

function checkOwner(owner: string, expected: string | undefined): Problem {
  if (owner === "") return { reason: "the ledger does not say which session it belongs to" };
  if (expected === undefined || owner === expected) return undefined;
  return { reason: `the ledger is that of session ${owner}, not of ${expected}` };
}

/** Session that a ledger belongs to. */
export function readOwner(path: string): Promise<string> {
  return withLedger(path, ownerOf);
}

async function versionOf(client: Client): Promise<number> {
  const { rows: [row] } = await client.execute("PRAGMA user_version");
  return Number(row.user_version);
}

async function ownerOf(client: Client): Promise<string> {
  const [row] = await selectText(client, ["session_id"], "FROM ledger_info");
  return row?.session_id ?? "";
}

/** Sequence of the last event whose decision is not bound into the chain: of a ledger that an older sbx began. */
async function boundAfterOf(client: Client): Promise<number> {
  const [row] = await selectText(client, ["after_sequence"], "FROM ledger_bound");
  return Number(row?.after_sequence ?? 0);
}

// The chains of events and outcomes.

/** Rows of a chain's first page, and of later ones. */
const PAGE_ROWS = 100, PAGE_ROWS_MIN = 10, PAGE_ROWS_MAX = 500;
/** Characters that a page is meant to have: an event can have a megabyte. */
const PAGE_LENGTH = 2 ** 21;

/** The good part of a chain. */
interface ChainState {
  /** rows */
  length: number;
  /** hash of the last row */
  hash: string;
}

/** Expected values for the rows of a chain. */
interface ChainTerms {
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
  /** the column that can be long */
  content: string;
  columns: readonly string[];
  /** Checks one row. @returns its first problem */
  check(row: TextRow, terms: ChainTerms): string | undefined;
  /** hash that the next row follows */
  link(row: TextRow, terms: ChainTerms): string | null;
}

const EVENTS: ChainTable = {
  noun: "event",
  table: "entries",
  key: "sequence",
  content: "event",
  columns: EVENT_COLUMNS,
  check: checkEvent,
  link: ({ sequence, hash, record_hash }, { boundAfter }) =>
    Number(sequence) > boundAfter ? record_hash ?? hash : hash,
};

const OUTCOMES: ChainTable = {
  noun: "outcome",
  table: "outcomes",
  key: "number",
  content: "outcome",
  columns: OUTCOME_COLUMNS,
  check: checkOutcome,
  link: ({ hash }) => hash,
};

const JOURNAL: ChainTable = {
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

/** Checks the rows of a chain, and counts the good ones in `state`. */
async function checkChain(
  client: Client,
  chain: ChainTable,
  state: ChainState,
  terms = NO_TERMS,
): Promise<Problem> {
  const { noun, table, key, content, columns } = chain;
  for (let rows = PAGE_ROWS;;) {
    let page: TextRow[];
    try {
      page = await selectPage(
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

// Rows outside the chains of events and outcomes.

/** Bodies read at a time: they have any size. */
const PAGE_BODIES = 16;

/**
 * Checks rows with JSON and its hash.
 *
 * @param keys columns that repeat members of the JSON, the row's id first
 * @param json column of the JSON
 */
async function checkRecords(
  client: Client,
  table: string,
  keys: string[],
  json: string,
): Promise<Problem> {
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

/** Tables that the journal binds: their id, and the row of the journal that counts where an id has several. */
const BOUND = [
  { kind: "finding", table: "findings", id: "finding_id", order: "ASC" },
  { kind: "approval", table: "approvals", id: "ask_id", order: "DESC" },
  { kind: "statement", table: "statements", id: "statement_id", order: "ASC" },
  { kind: "body", table: "body_blobs", id: "hash", order: "ASC" },
];

/** Compares findings, answers and bodies with the journal, which has a row for each that was written. */
async function checkBound(client: Client): Promise<Problem> {
  for (const { kind, table, id, order } of BOUND) {
    const [gone] = await selectText(
      client,
      ["id"],
      `FROM journal WHERE kind = '${kind}' AND id NOT IN (SELECT ${id} FROM ${table}) ORDER BY number LIMIT 1`,
    );
    if (gone) return { reason: `row ${gone.id} of ${table} is missing` };
    const [changed] = await selectText(
      client,
      [`${table}.${id}`],
      `FROM ${table} WHERE hash IS NOT (SELECT journal.hash FROM journal
         WHERE kind = '${kind}' AND journal.id = ${table}.${id} ORDER BY number ${order} LIMIT 1) LIMIT 1`,
    );
    if (changed) return { reason: `row ${changed[id]} of ${table} was added or changed` };
  }
}

/** Finds an outcome, a finding or an answer of an event that the ledger does not have. */
async function checkReferences(client: Client): Promise<Problem> {
  for (const table of ["outcomes", "findings", "approvals"]) {
    const [row] = await selectText(
      client,
      ["event_id"],
      `FROM ${table} WHERE event_id NOT IN (SELECT event_id FROM entries) LIMIT 1`,
    );
    if (row) {
      return { event_id: row.event_id ?? "", reason: `${table} has a row of an event that is not there` };
    }
  }
}
