/**
 * The ends of records as this service has seen them while other processes wrote them
 * (docs/design/contracts/12-ledger.md §12, "Witness").
 */
import { asSbxError, ifFound } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import { type ChainHeads, sameHeads, START_HEADS } from "../../ledger/mod.ts";
import {
  type Break,
  findBreak,
  findContradiction,
  type LedgerWitness,
  readWitness,
  readWitnessSync,
  witnessFolder,
  witnessPath,
  type WitnessProblem,
} from "../../ledger/witness/mod.ts";
import { sessionPaths } from "../../session/mod.ts";

/**
 * `ms` between two writes of witnessed heads: a crash of the service loses the ones in between. Before
 * each, the record is compared with all that came since.
 */
const WRITE_MS = 1000;
/** Most heads of a record that wait to be compared: of one that cannot be read, every second one goes. */
const SINCE_MAX = 1000;
/** Age up to which a problem is an issue, in `ms`: nothing mends it, but `sbx verify` goes on to name it. */
const ISSUE_MS = 7 * 24 * 3600 * 1000;

/** One session in memory. */
interface Seen {
  witness?: LedgerWitness;
  /**
   * heads since the record was last compared, with the newest ones of then: a writer that rewrites a row
   * reports heads that follow from the new one, and only the heads of before show it
   */
  since: ChainHeads[];
  /** why the record could not be compared */
  unread?: string;
  /** not in its file yet */
  isChanged: boolean;
  /** its ledger is written: this counts, not the file */
  isLive: boolean;
}

/** Holds the newest heads of each record, and compares records with them. */
export class Witnesses {
  readonly #home: Home;
  readonly #seen = new Map<string, Seen>();
  readonly #problems = new Map<string, WitnessProblem>();
  /** the last write; the next one waits for it */
  #written: Promise<void> = Promise.resolve();
  #timer?: number;
  /** why heads cannot be written */
  #unwritten = "";

  constructor(home: Home) {
    this.#home = home;
  }

  /**
   * Takes heads that the writer of a record has reported. Ones that take earlier ones back are a problem, and
   * are not taken over.
   */
  take(id: string, heads: ChainHeads): void {
    const seen = this.#open(id);
    seen.isLive = true;
    const before = seen.witness;
    const contradiction = before && findContradiction(before.heads, heads);
    if (contradiction) return this.#note(seen, contradiction);
    if (before && sameHeads(before.heads, heads)) return;
    if (seen.since.length >= SINCE_MAX) seen.since = seen.since.filter((_, at) => at % 2 === 0);
    seen.since.push(heads);
    this.#change(seen, {
      schema: "sbx.ledger-witness.v1",
      session_id: id,
      ...before?.problem && { problem: before.problem },
      at: new Date().toISOString(),
      heads,
    });
  }

  /** Heads that were witnessed of a session. @throws {SbxError} `witness.damaged` */
  async of(id: string): Promise<LedgerWitness | undefined> {
    return this.#seen.get(id)?.witness ?? await readWitness(this.#home, id);
  }

  /**
   * Compares a record with its witness, before it is opened to go on. From then on its end as found
   * counts: a problem with it is on file.
   */
  async begin(id: string): Promise<void> {
    const now = await this.check(id);
    const seen = this.#open(id);
    if (!now || !seen.witness?.problem) return;
    seen.since = [now];
    this.#change(seen, { ...seen.witness, heads: now });
  }

  /** The writer of a record has ended: compares the record, and writes the last heads down. */
  async ended(id: string): Promise<void> {
    await this.check(id);
    const seen = this.#seen.get(id);
    if (seen) seen.isLive = false;
    await this.#write();
  }

  /**
   * Compares a record with its witness. A difference is kept as its problem.
   * @returns heads of the record now; `undefined`: nothing was witnessed, or it cannot be read
   */
  async check(id: string): Promise<ChainHeads | undefined> {
    const seen = this.#seen.get(id);
    try {
      const witness = await this.of(id);
      if (!witness) return undefined;
      const all = seen?.since.length ? [...seen.since] : [witness.heads];
      const { ledger } = sessionPaths(this.#home, id);
      const isThere = await ifFound(Deno.lstat(ledger)) !== undefined;
      const { readHeadsAtEach } = await import("../../ledger/read/mod.ts");
      const { now, then } = isThere
        ? await readHeadsAtEach(ledger, all)
        : { now: START_HEADS, then: all.map(() => START_HEADS) };
      for (const [at, heads] of all.entries()) {
        const found = findBreak(heads, then[at], now);
        if (found) this.note(id, found);
      }
      // The newest ones stay for the next time; more may have come meanwhile.
      if (seen) seen.since.splice(0, Math.max(0, seen.since.indexOf(all.at(-1)!)));
      return now;
    } catch (error) {
      const { message } = asSbxError(error, `comparing the record of session ${id}`);
      if (seen?.unread !== message) log.warn(message);
      if (seen) seen.unread = message;
    }
  }

  /** Notes a problem of a record, whose first one stays. */
  note(id: string, problem: Break): void {
    this.#note(this.#open(id), problem);
  }

  /**
   * Reads the problems of earlier runs, and compares records that no process writes.
   * @param still sessions of VMs without a process
   */
  async load(still: readonly string[]): Promise<void> {
    const since = Date.now() - ISSUE_MS;
    for await (const { name } of entriesOf(witnessFolder(this.#home))) {
      const id = name.replace(/\.json$/, "");
      if (id === name || name.startsWith(".")) continue;
      const { mtime } = await Deno.stat(witnessPath(this.#home, id)).catch(() => ({ mtime: null }));
      if (!mtime || mtime.getTime() < since) continue;
      const witness = await readWitness(this.#home, id).catch(({ message }) => void log.warn(message));
      if (witness?.problem) this.#problems.set(id, witness.problem);
    }
    for (const id of still) if (!this.#seen.get(id)?.isLive) await this.check(id);
  }

  /** Issues of `sbx status`. */
  async problems(now = Date.now()): Promise<string[]> {
    const issues: string[] = [];
    for (const [id, { at, reason }] of this.#problems) {
      const isKept = this.#seen.has(id) || await ifFound(Deno.lstat(witnessPath(this.#home, id)));
      if (!isKept) this.#problems.delete(id);
      else if (now - Date.parse(at) <= ISSUE_MS) {
        issues.push(`the record of session ${id} is not as the service saw it: ${reason} (sbx verify ${id})`);
      }
    }
    return this.#unwritten === "" ? issues : [...issues, this.#unwritten];
  }

  /** Writes the heads that are not in their file yet. */
  async close(): Promise<void> {
    await this.#write();
  }

  #open(id: string): Seen {
    let seen = this.#seen.get(id);
    if (seen) return seen;
    seen = { since: [], isChanged: false, isLive: false };
    try {
      seen.witness = readWitnessSync(this.#home, id);
      if (seen.witness) seen.since.push(seen.witness.heads);
    } catch (error) {
      // Its heads are lost; the ones that come are witnessed again.
      log.error((error as Error).message);
    }
    this.#seen.set(id, seen);
    return seen;
  }

  #note(seen: Seen, problem: Break): void {
    const { witness } = seen;
    if (!witness || witness.problem) return;
    const noted = { ...problem, at: new Date().toISOString() };
    log.error(`the record of session ${witness.session_id} is not as this service saw it: ${problem.reason}`);
    this.#problems.set(witness.session_id, noted);
    this.#change(seen, { ...witness, problem: noted });
  }

  #change(seen: Seen, witness: LedgerWitness): void {
    seen.witness = witness;
    seen.isChanged = true;
    this.#timer ??= backgroundTimeout(() => void this.#write(), WRITE_MS);
  }

  #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.#written = this.#written.then(() => this.#writeChanged());
  }

  /** A failure delays nothing: the heads stay in memory, and the next write tries again. */
  async #writeChanged(): Promise<void> {
    for (const [id, seen] of this.#seen) {
      if (seen.isChanged) {
        // Only heads that the record was compared with: others may follow from a past that was rewritten.
        const compared = seen.witness;
        if (seen.isLive) await this.check(id);
        const witness = seen.witness?.problem ? seen.witness : compared;
        seen.isChanged = witness !== seen.witness;
        try {
          await Deno.mkdir(witnessFolder(this.#home), { recursive: true, mode: 0o700 });
          await writeAtomic(witnessPath(this.#home, id), JSON.stringify(witness) + "\n");
          this.#unwritten = "";
        } catch (error) {
          seen.isChanged = true;
          this.#failed(error);
          return;
        }
      }
      if (!seen.isLive && !seen.isChanged) this.#seen.delete(id);
    }
  }

  #failed(error: unknown): void {
    const { message } = asSbxError(error, `writing to ${witnessFolder(this.#home)}`);
    const issue = `the ends of records that this service sees are not kept: ${message}`;
    if (issue !== this.#unwritten) log.warn(this.#unwritten = issue);
    this.#timer ??= backgroundTimeout(() => void this.#write(), WRITE_MS);
  }
}

async function* entriesOf(dir: string): AsyncGenerator<Deno.DirEntry> {
  if (await ifFound(Deno.lstat(dir))) yield* Deno.readDir(dir);
}
