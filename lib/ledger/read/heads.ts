/**
 * Heads of a ledger's chains, now and at an earlier length: a kept head later shows whether anything before
 * it changed.
 */
import type { Client } from "@libsql/client/sqlite3";
import { BOUND_VERSION, GENESIS } from "../schema.ts";
import type { ChainHeads } from "../seal.ts";
import { withLedger } from "./open.ts";
import { selectText } from "./text.ts";

/** Lengths of the chains. */
export type ChainLengths = Pick<ChainHeads, "events" | "outcomes" | "journal">;

/** Reads the heads of a ledger, which may be written to meanwhile: each chain is read at one length. */
export function readHeads(path: string): Promise<ChainHeads> {
  return withLedger(path, async (client) => await headsAt(client, await lengthsOf(client)));
}

/** Reads the heads that a ledger had at these lengths; a hash is "" where the chain is shorter. Says nothing of the rows before. */
export function readHeadsAt(path: string, lengths: ChainLengths): Promise<ChainHeads> {
  return withLedger(path, (client) => headsAt(client, lengths));
}

async function lengthsOf(client: Client): Promise<ChainLengths> {
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

export async function headsAt(
  client: Client,
  { events, outcomes, journal }: ChainLengths,
): Promise<ChainHeads> {
  const bound = await isBound(client);
  const hashAt = async (table: string, key: string, column: string, at: number) => {
    if (at === 0) return GENESIS;
    const [row] = await selectText(
      client,
      ["head"],
      `FROM (SELECT ${column} AS head FROM ${table} WHERE ${key} = ?)`,
      [at],
    );
    return row?.head ?? "";
  };
  const head = bound
    ? "iif(sequence > (SELECT after_sequence FROM ledger_bound), coalesce(record_hash, hash), hash)"
    : "hash";
  return {
    events,
    head_hash: await hashAt("entries", "sequence", head, events),
    outcomes,
    outcome_hash: await hashAt("outcomes", "number", "hash", outcomes),
    journal,
    journal_hash: bound ? await hashAt("journal", "number", "link", journal) : GENESIS,
  };
}

/** True if decisions, findings and answers are in chains: not in ledgers of before. */
async function isBound(client: Client): Promise<boolean> {
  const { rows: [row] } = await client.execute("PRAGMA user_version");
  return Number(row.user_version) >= BOUND_VERSION;
}
