/**
 * A seal is a small file beside a ledger that was closed in order: the BLAKE3 of the database file and the head of
 * its chain. It shows what the chain alone cannot: events cut off at the end, and bits flipped where SQLite keeps
 * no row. It is no signature; who can rewrite both files can rewrite history.
 */
import { blake3File } from "../base/hash/mod.ts";
import { writeAtomic } from "../base/home/atomic.ts";

/** Where the two chains of a ledger end. */
export interface ChainHeads {
  events: number;
  head_hash: string;
  outcomes: number;
  outcome_hash: string;
}

/** What a seal says. */
export interface Seal extends ChainHeads {
  schema: "sbx.ledger-seal.v1";
  /** absent when a reader kept the last rows out of the file: then the heads alone are sealed */
  file_hash?: string;
  size?: number;
}

const sealPath = (path: string) => `${path}.seal`;

/** Seals a closed ledger; `whole` when nothing of it is outside its file. */
export async function writeSeal(path: string, heads: ChainHeads, whole: boolean): Promise<void> {
  const seal: Seal = { schema: "sbx.ledger-seal.v1", ...heads };
  if (whole) {
    const { hash, size } = await blake3File(path);
    Object.assign(seal, { file_hash: hash, size });
  }
  await writeAtomic(sealPath(path), JSON.stringify(seal) + "\n");
}

/** A ledger that is open for writing has no seal. */
export function removeSeal(path: string): void {
  try {
    Deno.removeSync(sealPath(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** The text of a ledger's seal; `undefined` when it has none: it is open, or whoever wrote it ended without closing it. */
export async function readSeal(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(sealPath(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Why the ledger is not what was sealed; `undefined` when it is. */
export async function sealBroken(path: string, text: string, head: ChainHeads): Promise<string | undefined> {
  let seal: Partial<Seal>;
  try {
    seal = JSON.parse(text) as Partial<Seal>;
  } catch {
    return "its seal is damaged";
  }
  if (seal.events !== head.events || seal.head_hash !== head.head_hash) {
    return `it was sealed with ${seal.events} events and has ${head.events}`;
  }
  if (seal.outcomes !== head.outcomes || seal.outcome_hash !== head.outcome_hash) {
    return `it was sealed with ${seal.outcomes} outcomes and has ${head.outcomes}`;
  }
  if (seal.file_hash === undefined) return undefined;
  const { hash } = await blake3File(path);
  return hash === seal.file_hash
    ? undefined
    : "bytes of the file that hold no event are not those that were sealed";
}
