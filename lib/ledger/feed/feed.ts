/**
 * Feed of one sink. The ledgers are its queue on disk, and a cursor for each session says which rows the
 * receiver has. So no event is copied, no VM waits for a receiver, and a killed process sends only its last
 * batch again.
 */
import { join } from "node:path";
import { writeAtomic } from "../../base/home/mod.ts";
import { LedgerTail, readEvents, readHeads } from "../read/mod.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { DeliveryError } from "../sink/mod.ts";
import { RecordCopier } from "./copy.ts";
import { BATCH_TRIES, Faults, SetAside } from "./fault.ts";
import type { FeedContext } from "./json.ts";
import type { FeedRecord } from "./record.ts";
import type { FeedSink } from "./schema.ts";
import { type SinkTrial, trySink } from "./trial.ts";

/** Ledgers kept past their retention for a sink that is away, in `bytes`. */
export const HELD_BYTES = 4 * 1024 * 1024 * 1024;
/** First and longest wait after a failure, in `ms`. */
const WAIT_FIRST_MS = 1000;
const WAIT_MAX_MS = 60_000;
/** Longest wait that a receiver may ask for, in `ms`. */
const RETRY_AFTER_MAX_MS = 5 * 60_000;

/** Delivers records to a receiver. */
export interface FeedSender {
  readonly batch: number;
  /** @returns number of rejected records @throws {DeliveryError} */
  send(records: readonly FeedRecord[], signal: AbortSignal): Promise<number>;
}

/** Rows of a session that a receiver has. */
interface Cursor {
  events: number;
  outcomes: number;
}

export interface FeedOptions {
  sink: FeedSink;
  /** default: corp */
  owner?: "corp" | "user";
  sender: FeedSender;
  /** folder of the cursors */
  dir: string;
  ledgerOf(sessionId: string): string;
  contextOf(sessionId: string): Promise<FeedContext>;
  onProblem?(message: string): void;
  /** default: {@linkcode HELD_BYTES} */
  heldBytes?: number;
}

/** State of a feed, for status lines. */
export interface FeedStatus {
  id: string;
  form: string;
  /** who names the sink: corp.toml, or the person's sinks.toml */
  owner: "corp" | "user";
  /** records since the service started: delivered, rejected, and lost with their ledgers */
  sent: number;
  refused: number;
  dropped: number;
  /** events that it refused or failed on, which are listed in a file */
  set_aside: number;
  set_aside_file: string | null;
  /** rows that wait, as of the last round */
  lag: number;
  last_error: string | null;
}

/** A feed as of now. */
export interface FeedStanding extends FeedStatus {
  url: string;
  /** time of the oldest event that waits */
  oldest_unix_ms: number | null;
  /** since the service started */
  last_success_unix_ms: number | null;
  last_failure: { at_unix_ms: number; message: string } | null;
}

/** Longest range of ends whose reading is tracked, at one `byte` each. */
const ENDS_MAX = 1024 * 1024;

/** Tracks which ends of a range were read with their events, so that they are not read again. */
class EndsRead {
  readonly #from: number;
  readonly #to: number;
  readonly #read: Uint8Array;

  constructor(from: number, to: number) {
    this.#from = from;
    this.#to = to;
    this.#read = new Uint8Array(to - from > ENDS_MAX ? 0 : to - from);
  }

  add(number: number): void {
    this.#read[number - this.#from - 1] = 1;
  }

  /** Number of the last unread end of the range; the number before the range if all were read. */
  lastUnread(): number {
    if (this.#read.length === 0) return this.#to;
    return this.#from + this.#read.lastIndexOf(0) + 1;
  }
}

export class Feed {
  readonly #options: FeedOptions;
  readonly #abort = new AbortController();
  readonly #done = new Set<string>();
  readonly #lags = new Map<string, number>();
  readonly #held = new Map<string, number>();
  /** sessions that the receiver failed on, the latest last */
  readonly #failed = new Set<string>();
  /** ledgers that could not be read: the problem, and when they are tried again */
  readonly #damaged = new Map<string, { problem: string; notBefore: number }>();
  /** sessions of which the receiver failed on a batch */
  readonly #faults = new Map<string, Faults>();
  readonly #setAside: SetAside;
  readonly #copier: RecordCopier;
  /** ledgers of running sessions */
  readonly #open = new Map<string, { ledger: LedgerTail; inode: number | null }>();
  /** session whose rows are being sent */
  #sending: string | undefined;
  #deliveries = 0;
  #sent = 0;
  #refused = 0;
  #dropped = 0;
  #lastError: string | null = null;
  /** a rejected event was reported in this round; a guest could flood the log with more */
  #saidRefused = false;
  #lastSuccess: number | null = null;
  #lastFailure: FeedStanding["last_failure"] = null;
  #wait = WAIT_FIRST_MS;
  /** no attempt before this time */
  #notBefore = 0;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#setAside = new SetAside(options.dir);
    this.#copier = new RecordCopier(options.sink);
  }

  status(): FeedStatus {
    const { sink: { id, form }, owner = "corp" } = this.#options;
    const lag = [...this.#lags.values()].reduce((sum, rows) => sum + rows, 0);
    const [sent, refused, dropped] = [this.#sent, this.#refused, this.#dropped];
    const { count, path } = this.#setAside;
    return {
      ...{ id, form, owner, sent, refused, dropped, lag },
      set_aside: count,
      set_aside_file: count > 0 ? path : null,
      last_error: this.#lastError,
    };
  }

  /**
   * Sends the missing rows of each session; after a failure it waits, longer each time. A session that failed
   * comes last in the next round, so that an event that a receiver fails on holds no other session back.
   */
  async round(
    sessions: readonly string[],
    isRunning: (id: string) => boolean,
    now = Date.now(),
  ): Promise<void> {
    if (now < this.#notBefore) return;
    const order = [
      ...sessions.filter((id) => !this.#failed.has(id)),
      ...[...this.#failed].filter((id) => sessions.includes(id)),
    ];
    this.#saidRefused = false;
    await this.#setAside.refresh();
    for (const id of order) {
      if (this.#abort.signal.aborted) return;
      const running = isRunning(id);
      if (this.#done.has(id) && !running || now < (this.#damaged.get(id)?.notBefore ?? 0)) continue;
      this.#done.delete(id);
      try {
        await this.#send(id, running);
      } catch (error) {
        if (this.#abort.signal.aborted) return;
        this.#failed.delete(id);
        if (error instanceof DeliveryError) {
          this.#failed.add(id);
          if (error.isFault) {
            const faults = this.#faults.get(id) ?? new Faults(this.#deliveries);
            this.#faults.set(id, faults);
            faults.tries++;
          }
          return this.#fail(error, now);
        }
        // A damaged ledger stops no other one. The cause may be a full disk, so it is tried again.
        this.#reportDamaged(id, error, now);
        continue;
      }
      this.#failed.delete(id);
      this.#damaged.delete(id);
      if (!running) this.#done.add(id);
    }
    this.#lastError = null;
    this.#wait = WAIT_FIRST_MS;
  }

  /**
   * True if a ledger past its retention may be removed: the receiver has all of it, or ledgers of
   * {@linkcode HELD_BYTES} wait already. Events lost that way are counted and reported.
   */
  async release(sessionId: string): Promise<boolean> {
    const path = this.#options.ledgerOf(sessionId);
    let heads;
    try {
      heads = await readHeads(path);
    } catch (error) {
      // Reported and kept; others can still be removed.
      this.#reportDamaged(sessionId, error, Date.now());
      return false;
    }
    const cursor = await this.#cursor(sessionId, heads);
    const lag = heads.events - cursor.events;
    if (lag > 0) {
      const size = (await Deno.stat(path)).size;
      const held = [...this.#held].reduce((sum, [id, bytes]) => id === sessionId ? sum : sum + bytes, 0);
      if (held + size <= (this.#options.heldBytes ?? HELD_BYTES)) {
        this.#held.set(sessionId, size);
        return false;
      }
      this.#dropped += lag;
      this.#options.onProblem?.(
        `the sink ${this.#options.sink.id} never got ${lag} events of session ${sessionId}, whose ledger is removed`,
      );
    }
    return true;
  }

  /** True if the receiver has every event of an ended session. */
  async isSent(sessionId: string): Promise<boolean> {
    const heads = await readHeads(this.#options.ledgerOf(sessionId));
    return heads.events <= (await this.#cursor(sessionId, heads)).events;
  }

  /**
   * Forgets a session whose ledger is removed. Without its cursor, a ledger that stays would be sent again.
   */
  async forget(sessionId: string): Promise<void> {
    this.#close(sessionId);
    this.#held.delete(sessionId);
    this.#lags.delete(sessionId);
    this.#done.delete(sessionId);
    this.#failed.delete(sessionId);
    this.#damaged.delete(sessionId);
    this.#faults.delete(sessionId);
    await Deno.remove(this.#cursorPath(sessionId)).catch(() => {/* there may be none */});
  }

  close(): void {
    this.#abort.abort();
    for (const id of this.#open.keys()) this.#close(id);
  }

  /** Status with a fresh count of waiting events: a failed round ends before it has counted each session. */
  async standing(sessions: readonly string[]): Promise<FeedStanding> {
    let lag = 0;
    let oldest: number | null = null;
    for (const id of sessions) {
      const path = this.#options.ledgerOf(id);
      if (this.#done.has(id) || !await Deno.lstat(path).then(() => true, () => false)) continue;
      try {
        const heads = await readHeads(path);
        const { events: at } = await this.#cursor(id, heads);
        lag += heads.events - at;
        if (heads.events === at) continue;
        const { events: [first] } = await readEvents(path, { cursor: String(at), limit: 1 });
        oldest = Math.min(first?.common.timestamp_unix_ms ?? Infinity, oldest ?? Infinity);
      } catch {
        // A ledger that cannot be read is reported by the rounds, and hides no other one.
      }
    }
    return {
      ...this.status(),
      url: this.#options.sink.url,
      lag,
      oldest_unix_ms: oldest === Infinity ? null : oldest,
      last_success_unix_ms: this.#lastSuccess,
      last_failure: this.#lastFailure,
    };
  }

  /** Sends a test event, which is in no ledger. */
  try(): Promise<SinkTrial> {
    const { sink, sender } = this.#options;
    return trySink(sink, (records) => sender.send(records, this.#abort.signal));
  }

  async #send(id: string, running: boolean): Promise<void> {
    const path = this.#options.ledgerOf(id);
    const file = await Deno.lstat(path).catch(() => undefined);
    if (this.#open.get(id)?.inode !== file?.ino) this.#close(id);
    if (!file) return;
    const ledger = this.#open.get(id)?.ledger ?? await LedgerTail.open(path);
    if (running) this.#open.set(id, { ledger, inode: file.ino });
    else this.#open.delete(id);
    this.#sending = id;
    let isSent = false;
    try {
      await this.#sendRows(id, ledger);
      isSent = true;
    } finally {
      this.#sending = undefined;
      // Opening it in each round would cost as much as sending a hundred events.
      if (!isSent || this.#abort.signal.aborted) this.#open.delete(id);
      if (!this.#open.has(id)) ledger.close();
    }
  }

  /** Closes the ledger of a session; one that is being read is closed after that. */
  #close(id: string): void {
    if (id !== this.#sending) this.#open.get(id)?.ledger.close();
    this.#open.delete(id);
  }

  async #sendRows(id: string, ledger: LedgerTail): Promise<void> {
    const { sender, contextOf } = this.#options;
    // Ends recorded so far; an event read later brings its end along.
    const heads = await ledger.lengths();
    let cursor = await this.#cursor(id, heads);
    const before = cursor.events;
    this.#lags.set(id, heads.events - cursor.events);
    if (heads.events === cursor.events && heads.outcomes === cursor.outcomes) return;
    const context = await contextOf(id);
    const recordOf = this.#copier.pass(context);
    const ends = new EndsRead(cursor.outcomes, heads.outcomes);
    // Also after a batch that failed.
    this.#copier.release();
    while (cursor.events < heads.events) {
      const records: FeedRecord[] = [];
      let last = cursor.events;
      await ledger.events(cursor.events, sender.batch, (event) => {
        last = event.sequence;
        if (event.outcome) ends.add(event.outcome.number);
        const record = recordOf(event);
        if (record) records.push(record);
      });
      if (last === cursor.events) break;
      await this.#deliverOf(id, records);
      this.#copier.release();
      cursor = { ...cursor, events: last };
      await this.#move(id, cursor);
      this.#lags.set(id, Math.max(0, heads.events - cursor.events));
    }
    const updateOf = this.#copier.pass(context, true);
    // An end that was read with its event needs no query, which costs as much as reading the event.
    for (const to = ends.lastUnread(); cursor.outcomes < to;) {
      const range = { from: cursor.outcomes, to, last: before, limit: sender.batch };
      const records: FeedRecord[] = [];
      const end = await ledger.ended(range, (event) => {
        const record = updateOf(event);
        if (record) records.push(record);
      });
      await this.#deliverOf(id, records);
      this.#copier.release();
      cursor = { ...cursor, outcomes: end };
      await this.#move(id, cursor);
    }
    if (cursor.outcomes < heads.outcomes) await this.#move(id, { ...cursor, outcomes: heads.outcomes });
  }

  /** Delivers records of a session; after repeated failures by halves (fault.ts). */
  async #deliverOf(id: string, records: readonly FeedRecord[]): Promise<void> {
    if (records.length === 0) return;
    const faults = this.#faults.get(id);
    if (!faults || faults.tries < BATCH_TRIES) await this.#deliver(records);
    else {
      const send = (part: readonly FeedRecord[]) => this.#deliver(part);
      for (const { record, error } of await faults.sendParts(records, send, () => this.#deliveries)) {
        await this.#refuse(record, `failed on event ${record.event_id} again and again`, error);
      }
    }
    this.#faults.delete(id);
  }

  /** @throws {DeliveryError} the receiver has not taken the records */
  async #deliver(records: readonly FeedRecord[]): Promise<void> {
    try {
      const refused = await this.#options.sender.send(records, this.#abort.signal);
      this.#lastSuccess = Date.now();
      this.#deliveries++;
      this.#refused += refused;
      this.#sent += records.length - refused;
      if (refused > 0) this.#reportRefused(`the sink ${this.#options.sink.id} rejected ${refused} events`);
    } catch (error) {
      if (!(error instanceof DeliveryError) || !error.isRejected) throw error;
      // One record can get a whole batch rejected: halving finds it, and the others arrive.
      if (records.length > 1) {
        const middle = records.length >> 1;
        await this.#deliver(records.slice(0, middle));
        return await this.#deliver(records.slice(middle));
      }
      await this.#refuse(records[0], `rejected event ${records[0].event_id}`, error);
    }
  }

  /** Sets an event aside for good. */
  async #refuse(record: FeedRecord, problem: string, error: DeliveryError): Promise<void> {
    await this.#setAside.add(record, error.message);
    this.#refused++;
    this.#reportRefused(`the sink ${this.#options.sink.id} ${problem}: ${error.message}`);
  }

  #fail(error: DeliveryError, now: number): void {
    if (this.#lastError !== error.message) {
      this.#report(`events wait for the sink ${this.#options.sink.id}: ${error.message}`);
    }
    this.#lastError = error.message;
    this.#lastFailure = { at_unix_ms: Date.now(), message: error.message };
    this.#notBefore = now + Math.max(this.#wait, Math.min(error.retryAfterMs ?? 0, RETRY_AFTER_MAX_MS));
    this.#wait = Math.min(this.#wait * 2, WAIT_MAX_MS);
  }

  #reportDamaged(id: string, error: unknown, now: number): void {
    const problem = asSbxError(error, `reading the ledger of ${id}`).message;
    if (this.#damaged.get(id)?.problem !== problem) this.#report(problem);
    this.#damaged.set(id, { problem, notBefore: now + WAIT_MAX_MS });
  }

  #reportRefused(message: string): void {
    if (!this.#saidRefused) this.#report(message);
    this.#saidRefused = true;
  }

  #report(message: string): void {
    this.#options.onProblem?.(message);
  }

  async #cursor(id: string, heads: Cursor): Promise<Cursor> {
    const isWithin = (at: unknown, head: number) =>
      Number.isSafeInteger(at) && (at as number) >= 0 && (at as number) <= head;
    try {
      const { events, outcomes } = JSON.parse(await Deno.readTextFile(this.#cursorPath(id)));
      if (isWithin(events, heads.events) && isWithin(outcomes, heads.outcomes)) return { events, outcomes };
    } catch {
      // As below.
    }
    // Missing or damaged: everything is sent again, because duplicates are better than losses.
    return { events: 0, outcomes: 0 };
  }

  async #move(id: string, cursor: Cursor): Promise<void> {
    const write = () => writeAtomic(this.#cursorPath(id), JSON.stringify(cursor));
    try {
      await write();
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      await Deno.mkdir(this.#options.dir, { recursive: true, mode: 0o700 });
      await write();
    }
  }

  #cursorPath(id: string): string {
    return join(this.#options.dir, `${id}.json`);
  }
}
