import type { Client } from "@libsql/client/sqlite3";
import { basename, dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { ledgerError } from "../failure.ts";
import { BOUND_VERSION, GENESIS } from "../schema.ts";
import { findSealMismatch, readSeal } from "../seal.ts";
import { openLedger, withLedger } from "./open.ts";
import { selectText } from "./text.ts";
import {
  type ChainState,
  checkChain,
  EVENTS,
  JOURNAL,
  OUTCOMES,
  type Problem,
  type SealSigner,
  type Verification,
} from "./verify_chain.ts";
import { checkBodies, checkBound, checkRecords, checkReferences, checkStructure } from "./verify_rows.ts";

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
