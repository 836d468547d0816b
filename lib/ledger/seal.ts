/**
 * A seal is a small file beside a ledger that was closed in order: the BLAKE3 of the database file and the
 * heads of its chains. It reveals changes that the chains cannot: events cut off at the end, and bits flipped
 * where SQLite keeps no row. Where this machine has a key, the seal is the payload of a signed envelope
 * (DSSE), which is made and checked outside (`lib/release/signing`): rewriting both files without the key is
 * detected.
 */
import { ifFound } from "../base/error/mod.ts";
import { blake3File } from "../base/hash/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";

/** Ends of the chains of a ledger. */
export interface ChainHeads {
  events: number;
  /** hash that the next event follows: of the last event, with its decision */
  head_hash: string;
  outcomes: number;
  outcome_hash: string;
  /** rows of the journal */
  journal: number;
  journal_hash: string;
}

/** Content of a seal. */
export interface Seal extends ChainHeads {
  schema: "sbx.ledger-seal.v1";
  /** absent in seals of ledgers before version 3 */
  session_id?: string;
  /** absent if a reader kept the last rows out of the file: then only the heads are sealed */
  file_hash?: string;
  size?: number;
}

const sealPath = (path: string) => `${path}.seal`;

/**
 * Seals a closed ledger.
 *
 * @param whole all of its rows are in its file
 * @returns the text of the seal, to be signed
 */
export async function writeSeal(
  path: string,
  session_id: string,
  heads: ChainHeads,
  whole: boolean,
): Promise<string> {
  const seal: Seal = { schema: "sbx.ledger-seal.v1", session_id, ...heads };
  if (whole) {
    const { hash, size } = await blake3File(path);
    Object.assign(seal, { file_hash: hash, size });
  }
  const text = JSON.stringify(seal) + "\n";
  await writeAtomic(sealPath(path), text);
  return text;
}

/** Replaces a seal by its signed envelope. */
export async function writeSignedSeal(path: string, envelope: string): Promise<void> {
  await writeAtomic(sealPath(path), envelope);
}

/** Removes the seal: a ledger open for writing has none. */
export function removeSeal(path: string): void {
  try {
    Deno.removeSync(sealPath(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Text of a ledger's seal; `undefined` if it is open, or its writer ended without closing it. */
export async function readSeal(path: string): Promise<string | undefined> {
  return await ifFound(Deno.readTextFile(sealPath(path)));
}

/** A seal in its file's format: plain, or in an envelope, whose signature is not checked here. */
function parseSeal(text: string): Partial<Seal> | undefined {
  try {
    const file = JSON.parse(text) as Partial<Seal> & { payload?: string };
    if (file.payload === undefined) return file;
    return JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(file.payload))) as Partial<Seal>;
  } catch {
    return undefined;
  }
}

/** Compares a ledger with its seal. @returns the first difference, `undefined` if they agree */
export async function findSealMismatch(
  path: string,
  text: string,
  sessionId: string,
  heads: ChainHeads,
): Promise<string | undefined> {
  const seal = parseSeal(text);
  if (!seal) return "the seal is damaged";
  if (seal.session_id !== undefined && seal.session_id !== sessionId) {
    return `the seal is that of session ${seal.session_id}`;
  }
  if (seal.events !== heads.events || seal.head_hash !== heads.head_hash) {
    return `the ledger was sealed with ${seal.events} events and has ${heads.events}`;
  }
  if (seal.outcomes !== heads.outcomes || seal.outcome_hash !== heads.outcome_hash) {
    return `the ledger was sealed with ${seal.outcomes} outcomes and has ${heads.outcomes}`;
  }
  // A seal of an older ledger has no journal.
  if (
    seal.journal !== undefined && (seal.journal !== heads.journal || seal.journal_hash !== heads.journal_hash)
  ) {
    return `the ledger was sealed with ${seal.journal} findings, answers and bodies and has ${heads.journal}`;
  }
  if (seal.file_hash === undefined) return undefined;
  const { hash } = await blake3File(path);
  return hash === seal.file_hash
    ? undefined
    : "bytes of the file outside any event differ from the sealed ones";
}
