/** Checks a ledger: its chains, its other rows and its seal, as `sbx verify` does. */
import type { Client } from "../database.ts";
import { basename, dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { ledgerError } from "../failure.ts";
import { BOUND_VERSION } from "../schema.ts";
import { openLedger, parseJson, selectText, withLedger } from "./open.ts";
import { digestText, findSealMismatch, readSeal } from "../chain.ts";
import { blake3 } from "../../base/hash/mod.ts";
import {
  type ChainState,
  type ChainTable,
  type ChainTerms,
  checkChain,
  EVENTS,
  JOURNAL,
  newState,
  OUTCOMES,
  type Problem,
  stateAt,
} from "./check.ts";
import { findBreak, type LedgerWitness } from "../witness/mod.ts";
import { type RestThread, startRest } from "./rest.ts";

/** Key that signed a seal. One that is not trusted proves nothing. */
export interface SealSigner {
  id: string;
  trusted: boolean;
}

/** Report of `sbx verify` on one ledger. */
export interface Verification {
  ok: boolean;
  /** number of good events, counted from the first */
  events: number;
  /** the ledger has a seal, which also proves its end, its findings and its approvals */
  sealed: boolean;
  /** key that signed the seal; absent: the seal is not signed, or nothing could check it */
  signed_by?: SealSigner;
  /** the record has the heads that the service had seen; absent: it has not, or the service saw none */
  witnessed?: Witnessed;
  /** first problem */
  first_bad?: Problem;
}

/** The part of a record that the service saw while its writer, another process, wrote it. */
export interface Witnessed {
  /** number of the last event that it saw */
  events: number;
  /** ISO 8601: time at which it saw that */
  at: string;
  /** number of events after that one */
  newer: number;
}

/** Checks the signature of a sealed ledger. */
export interface SealCheck {
  /**
   * @returns the signer; `undefined`: the seal is not signed
   * @throws {SbxError} the signature is not valid
   */
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
 * @param expected session that the ledger must belong to; by default the one that
 * its folder is named by, if it is
 * @param checkSeal checks the signature of the seal
 * @param witness heads that the record must have at their lengths, read before this call
 * @throws {SbxError} `ledger.not_found`, `ledger.version.conflict`, `ledger.unavailable`
 */
export async function verifyLedger(
  path: string,
  expected = sessionOfFolder(path),
  checkSeal?: SealCheck,
  witness?: LedgerWitness,
): Promise<Verification> {
  const [events, outcomes, journal] = [newState(), newState(), newState()];
  let client: Client | undefined;
  let rest: RestThread | undefined;
  let problem: Problem | undefined;
  let owner = "";
  let witnessed: Witnessed | undefined;
  try {
    client = await openLedger(path, (reason) => problem = { reason });
    // Reading such a database may never end.
    if (problem) {
      return { ok: false, events: 0, sealed: await readSeal(path) !== undefined, first_bad: problem };
    }
    const isBound = await versionOf(client) >= BOUND_VERSION;
    owner = await ownerOf(client);
    const boundAfter = isBound ? await boundAfterOf(client) : Infinity;
    const terms = { owner, boundAfter };
    rest = await startRest(client, path, terms);
    problem = checkOwner(owner, expected) ??
      await checkChain(client, EVENTS, events, terms, rest?.events) ??
      await checkChain(client, OUTCOMES, outcomes, terms, rest?.outcomes) ??
      await checkRecords(client, "findings", ["finding_id", "event_id", "rule_id"], "finding") ??
      await checkRecords(client, "approvals", ["ask_id", "event_id"], "record") ??
      await checkRecords(client, "statements", ["statement_id", "kind"], "record") ??
      await checkBodies(client) ??
      (isBound ? await checkChain(client, JOURNAL, journal) ?? await checkBound(client) : undefined) ??
      await checkReferences(client) ??
      await checkStructure(client);
    if (!problem && witness) {
      problem = await checkWitness(client, witness, { events, outcomes, journal }, terms);
      if (!problem) {
        const { at, heads } = witness;
        witnessed = { events: heads.events, at, newer: events.length - heads.events };
      }
    }
  } catch (error) {
    if (error instanceof SbxError) throw error;
    // A failed read proves nothing about a record.
    if (UNREADABLE.test((error as { code?: string }).code ?? "")) throw ledgerError(error, path, "read");
    problem = { sequence: events.length + 1, reason: ledgerError(error, path, "read").message };
  } finally {
    rest?.stop();
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
    ...(witnessed && { witnessed }),
    ...(problem && { first_bad: problem }),
  };
}

/** Compares a record whose chains are good with the heads that the service has witnessed. */
async function checkWitness(
  client: Client,
  { heads, problem }: LedgerWitness,
  chains: { events: ChainState; outcomes: ChainState; journal: ChainState },
  terms: ChainTerms,
): Promise<Problem | undefined> {
  if (problem) return { code: problem.code, reason: `${problem.reason} (found ${problem.at})` };
  const hashAt = async (chain: ChainTable, length: number) =>
    (await stateAt(client, chain, length, terms))?.hash ?? "";
  return findBreak(heads, {
    head_hash: await hashAt(EVENTS, heads.events),
    outcome_hash: await hashAt(OUTCOMES, heads.outcomes),
    journal_hash: await hashAt(JOURNAL, heads.journal),
  }, {
    events: chains.events.length,
    outcomes: chains.outcomes.length,
    journal: chains.journal.length,
  });
}

function sessionOfFolder(path: string): string | undefined {
  const name = basename(dirname(resolve(path)));
  return SESSION_FOLDER.test(name) ? name : undefined;
}

function checkOwner(owner: string, expected: string | undefined): Problem | undefined {
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

/**
 * Sequence of the last event whose decision is not bound into the chain: of a ledger that an older sbx began.
 */
async function boundAfterOf(client: Client): Promise<number> {
  const [row] = await selectText(client, ["after_sequence"], "FROM ledger_bound");
  return Number(row?.after_sequence ?? 0);
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
): Promise<Problem | undefined> {
  for (const row of await selectText(client, [...keys, json, "hash"], `FROM ${table} ORDER BY rowid`)) {
    const record = parseJson<Record<string, unknown>>(row[json]);
    if (digestText(row[json] ?? "") !== row.hash || keys.some((key) => record?.[key] !== row[key])) {
      return { event_id: row.event_id ?? "", reason: `row ${row[keys[0]]} of ${table} was changed` };
    }
  }
}

async function checkBodies(client: Client): Promise<Problem | undefined> {
  for (let after = -Infinity;;) {
    const { rows } = await client.execute({
      sql: `SELECT rowid AS row, CAST(hash AS BLOB) AS hash, CAST(bytes AS BLOB) AS bytes FROM body_blobs
              WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE_BODIES}`,
      args: [after],
    });
    if (!rows.length) return undefined;
    for (const { row, hash, bytes } of rows) {
      const name = new TextDecoder().decode(hash as Uint8Array);
      if (blake3(bytes as Uint8Array) !== name) {
        return { reason: `body ${name} was changed` };
      }
      after = row as number;
    }
  }
}

async function checkStructure(client: Client): Promise<Problem | undefined> {
  const { rows } = await client.execute("PRAGMA integrity_check(1)");
  return rows[0]?.integrity_check === "ok"
    ? undefined
    : { reason: "the structure of the database is damaged" };
}

/**
 * Tables that the journal binds: their id, and the row of the journal that counts where an id has several.
 */
const BOUND = [
  { kind: "finding", table: "findings", id: "finding_id", order: "ASC" },
  { kind: "approval", table: "approvals", id: "ask_id", order: "DESC" },
  { kind: "statement", table: "statements", id: "statement_id", order: "ASC" },
  { kind: "body", table: "body_blobs", id: "hash", order: "ASC" },
];

/** Compares findings, answers and bodies with the journal, which has a row for each that was written. */
async function checkBound(client: Client): Promise<Problem | undefined> {
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
async function checkReferences(client: Client): Promise<Problem | undefined> {
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
