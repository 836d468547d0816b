/**
 * Hashes of a ledger's rows, each chained to the row before, and the seal of a closed ledger
 * (docs/design/contracts/12-ledger.md §12).
 */
import { blake3, blake3File } from "../base/hash/mod.ts";
import {
  APPROVAL_WIDTH,
  EVENT_WIDTH,
  FINDING_WIDTH,
  OUTCOME_WIDTH,
  type Rows,
  STATEMENT_WIDTH,
  type Value,
} from "./batch.ts";
import { GENESIS, type Insert, INSERTS, type JournalKind } from "./schema.ts";
import { Blake3Hasher } from "@napi-rs/blake-hash";
import { ifFound } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";

/** Value of any column. */
export type Column = Value | Uint8Array;

/**
 * The chains of a ledger: of events with their decisions, of outcomes, and of the journal, which has a row
 * for every finding, answer, statement and body. Each row has a hash over itself and the hash before. Gathers
 * hashed rows until they are written.
 */
export class Chain {
  readonly heads: ChainHeads;
  /** values of all gathered rows, flat, by insert */
  readonly inserts = new Map<Insert, Column[]>();
  /** number of gathered rows */
  rows = 0;
  /** characters and bytes of the gathered rows, without ids and hashes */
  size = 0;

  constructor(heads: ChainHeads) {
    this.heads = heads;
  }

  /** Appends rows. */
  add({ events, outcomes, findings, approvals, statements, bodies, count, size }: Rows): void {
    this.#addEvents(events);
    if (outcomes.length) this.#addOutcomes(outcomes);
    this.#addRecords("finding", INSERTS.finding, findings, FINDING_WIDTH);
    this.#addRecords("approval", INSERTS.approval, approvals, APPROVAL_WIDTH);
    this.#addRecords("statement", INSERTS.statement, statements, STATEMENT_WIDTH);
    for (const { bytes, content_type } of bodies) {
      const hash = blake3(bytes);
      this.#values(INSERTS.body).push(hash, content_type, bytes);
      this.#bind("body", hash, hash);
    }
    this.rows += count;
    this.size += size;
  }

  /** Forgets the gathered rows, after they were written. */
  clear(): void {
    this.inserts.clear();
    this.rows = this.size = 0;
  }

  #values(insert: Insert): Column[] {
    let values = this.inserts.get(insert);
    if (!values) this.inserts.set(insert, values = []);
    return values;
  }

  #addEvents(events: readonly Value[]): void {
    const [plain, decided] = [this.#values(INSERTS.plain), this.#values(INSERTS.decided)];
    for (let at = 0; at < events.length; at += EVENT_WIDTH) {
      const text = events[at + 3] as string;
      const record = events[at + 6] as string | null;
      const previous = this.heads.head_hash;
      const hash = digestText(text, previous);
      const values = record === null ? plain : decided;
      values.push(events[at], events[at + 1], events[at + 2], text, previous, hash);
      this.heads.head_hash = hash;
      if (record !== null) {
        // The next event follows the decision, which follows its event: neither can be taken out.
        this.heads.head_hash = digestText(record, hash);
        values.push(events[at + 4], events[at + 5], record, this.heads.head_hash);
      }
      this.heads.events++;
    }
  }

  #addOutcomes(outcomes: readonly Value[]): void {
    const values = this.#values(INSERTS.outcome);
    for (let at = 0; at < outcomes.length; at += OUTCOME_WIDTH) {
      const text = outcomes[at + 3] as string;
      const previous = this.heads.outcome_hash;
      const hash = digestText(text, previous);
      values.push(outcomes[at], outcomes[at + 1], outcomes[at + 2], text, previous, hash);
      this.heads.outcome_hash = hash;
      this.heads.outcomes++;
    }
  }

  /**
   * Copies rows whose first value is their id and whose last one is their text, adds
   * the hash of that, and binds them.
   */
  #addRecords(kind: JournalKind, insert: Insert, records: readonly string[], width: number): void {
    const values = this.#values(insert);
    for (let at = 0; at < records.length; at += width) {
      for (let each = at; each < at + width; each++) values.push(records[each]);
      const hash = digestText(records[at + width - 1]);
      values.push(hash);
      this.#bind(kind, records[at], hash);
    }
  }

  #bind(kind: JournalKind, id: string, hash: string): void {
    const previous = this.heads.journal_hash;
    const link = journalLink(kind, id, hash, previous);
    this.#values(INSERTS.journal).push(++this.heads.journal, kind, id, hash, previous, link);
    this.heads.journal_hash = link;
  }
}

/** Hash of a row of the journal. */
export function journalLink(kind: string, id: string, hash: string, previous: string): string {
  return digestText(`${kind}\n${id}\n${hash}`, previous);
}

/** Shared by all calls: creating a hasher costs more than hashing an event. */
const hasher = new Blake3Hasher();

/** BLAKE3 of `text` followed by `suffix`, as 64 lower-case hex characters. */
export function digestText(text: string, suffix = ""): string {
  hasher.reset();
  // Two updates instead of one joined text: hashing flattens `text`, which is then written as it is.
  hasher.update(text);
  if (suffix) hasher.update(suffix);
  return hasher.digest("hex");
}

// A seal is a small file beside a ledger that was closed in order: the BLAKE3 of the database file and the
// heads of its chains. It reveals changes that the chains cannot: events cut off at the end, and bits
// flipped where SQLite keeps no row. Where this machine has a key, the seal is the payload of a signed
// envelope (DSSE), which is made and checked outside (`lib/release/signing`): rewriting both files without
// the key is detected.

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

/** Ends of the chains of a ledger without rows. */
export const START_HEADS: ChainHeads = {
  events: 0,
  head_hash: GENESIS,
  outcomes: 0,
  outcome_hash: GENESIS,
  journal: 0,
  journal_hash: GENESIS,
};

/** Compares lengths and hashes. */
export function sameHeads(one: ChainHeads, other: ChainHeads): boolean {
  return one.events === other.events && one.head_hash === other.head_hash &&
    one.outcomes === other.outcomes && one.outcome_hash === other.outcome_hash &&
    one.journal === other.journal && one.journal_hash === other.journal_hash;
}

/** Content of a seal. */
interface Seal extends ChainHeads {
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
