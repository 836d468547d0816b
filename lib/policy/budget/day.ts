/** Spending of a profile on one day: a file for each session, which the sessions of the profile read. */
import { join } from "node:path";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout, timeLimit } from "../../base/time/mod.ts";
import { type Amounts, type CallAmounts, type Kind, KINDS, noAmounts } from "./amount.ts";

/** `ms` for which other sessions' spending is remembered, and after which this session's is written. */
const FRESH_MS = 500;
/**
 * `ms` after which a reservation of another session is taken for spent: its
 * process ended without counting it.
 */
const RESERVED_MS = 15 * 60_000;
/** `ms` that a session waits while others reserve. */
const LOCK_MS = timeLimit(5000);

/** A limit of a day on what calls use. */
export interface DayLimit {
  kind: keyof CallAmounts;
  max: number;
}

/** The most that a call under way may use. */
interface Reserved extends CallAmounts {
  /** unix `ms` */
  at: number;
}

export class DaySpending {
  readonly #dir: string;
  readonly #session: string;
  readonly #now: () => number;
  #own: Counted = { date: "", amounts: noAmounts(), reserved: [] };
  #others: Counted & { at: number } = { date: "", at: -Infinity, amounts: noAmounts(), reserved: [] };
  /** of this session's calls under way, by event id */
  readonly #reserved = new Map<string, Reserved>();
  #isWriting = false;
  #written = Promise.resolve();

  /** @param dir of the profile; made with the first spending */
  constructor(dir: string, session: string, now = Date.now) {
    this.#dir = dir;
    this.#session = session;
    this.#now = now;
  }

  /** The day that counts now. */
  get date(): string {
    this.#turn();
    return this.#own.date;
  }

  /**
   * @param of day that counted the amount that a negative one gives back: on another day it would add room
   */
  add(amounts: Partial<Amounts>, of = this.date): void {
    const isToday = of === this.date;
    for (const kind of KINDS) {
      const amount = amounts[kind] ?? 0;
      if (isToday || amount > 0) this.#own.amounts[kind] += amount;
    }
    if (this.#isWriting) return;
    this.#isWriting = true;
    backgroundTimeout(() => this.flush().catch((error) => log.warn(error)), FRESH_MS);
  }

  /**
   * Reserves a call's possible usage, where that leaves room for the calls under way of all sessions of the
   * profile.
   *
   * @returns false while their reservations leave none
   * @throws {SbxError} `budget.unavailable`: others cannot see the reservation
   */
  async claim(id: string, amounts: CallAmounts, limits: readonly DayLimit[]): Promise<boolean> {
    this.#turn();
    const dir = join(this.#dir, this.#own.date);
    try {
      await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
      using lock = await Deno.open(join(dir, "lock"), { create: true, write: true, mode: 0o600 });
      if (!await lockWithin(lock, LOCK_MS)) throw new Error(`${dir}/lock is held by another VM`);
      this.#others.at = -Infinity;
      if (limits.some((limit) => this.#isCrowded(amounts, limit))) return false;
      this.#reserved.set(id, { ...amounts, at: this.#now() });
      await this.flush();
      return true;
    } catch (cause) {
      this.#reserved.delete(id);
      throw new SbxError("budget.unavailable", `a call cannot be counted in ${dir}`, {
        cause,
        hint: "check that the folder can be written to, and that its disk has room",
      });
    }
  }

  /** Gives a reservation back, or counts it by {@linkcode add}. */
  unclaim(id: string): void {
    if (this.#reserved.delete(id)) this.add({});
  }

  #isCrowded(amounts: CallAmounts, { kind, max }: DayLimit): boolean {
    const reserved = sumOf(this.#reserved.values(), kind) + sumOf(this.#othersReserved(), kind);
    return reserved > 0 && this.total(kind) + reserved + amounts[kind] > max;
  }

  #othersReserved(): readonly Reserved[] {
    this.#read();
    return this.#others.reserved;
  }

  /** Raises today's amounts to the amounts in the session's record: the file is written later. */
  restore(today: Partial<Amounts>): void {
    this.#turn();
    const { amounts } = this.#own;
    for (const kind of KINDS) amounts[kind] = Math.max(amounts[kind], today[kind] ?? 0);
  }

  /** Why today's spending is not known, as a clause; `undefined`: it is. */
  unknown(): string | undefined {
    this.#turn();
    this.#read();
    return this.#own.unknown ?? this.#others.unknown;
  }

  /** Of all sessions of the profile today. */
  total(kind: Kind): number {
    this.#turn();
    return this.#own.amounts[kind] + this.#read()[kind];
  }

  /** Writes the spending since the last time. */
  flush(): Promise<void> {
    this.#isWriting = false;
    const written = this.#written.then(() => this.#write());
    this.#written = written.catch(ignore("the caller gets the error"));
    return written;
  }

  async #write(): Promise<void> {
    const { date, amounts } = this.#own;
    if (date === "") return;
    const dir = join(this.#dir, date);
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    const text = JSON.stringify({ ...amounts, reserved: [...this.#reserved.values()] });
    await writeAtomic(join(dir, `${this.#session}.json`), text);
  }

  /** Begins a day, with this session's recorded spending on it. */
  #turn(): void {
    const date = new Date(this.#now()).toISOString().slice(0, 10);
    if (date === this.#own.date) return;
    this.#own = { date, ...readAmounts(join(this.#dir, date, `${this.#session}.json`)) };
  }

  #read(): Amounts {
    const { date } = this.#own;
    if (date === this.#others.date && this.#now() - this.#others.at < FRESH_MS) return this.#others.amounts;
    const amounts = noAmounts();
    const dir = join(this.#dir, date);
    const reserved: Reserved[] = [];
    let unknown: string | undefined;
    try {
      for (const { name } of Deno.readDirSync(dir)) {
        if (name === `${this.#session}.json` || !name.endsWith(".json")) continue;
        const other = readAmounts(join(dir, name));
        unknown ??= other.unknown;
        for (const kind of KINDS) amounts[kind] += other.amounts[kind];
        for (const each of other.reserved) {
          if (this.#now() - each.at < RESERVED_MS) reserved.push(each);
          else for (const kind of CALL_KINDS) amounts[kind] += each[kind];
        }
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) unknown = `${dir} cannot be read`;
    }
    this.#others = { date, at: this.#now(), amounts, reserved, unknown };
    return amounts;
  }
}

/** Amounts of a day. */
interface Counted {
  date: string;
  amounts: Amounts;
  /** of calls under way */
  reserved: readonly Reserved[];
  /** why they are not all, as a clause */
  unknown?: string;
}

const CALL_KINDS = ["usd", "tokens"] as const;

function sumOf(reserved: Iterable<Reserved>, kind: keyof CallAmounts): number {
  let sum = 0;
  for (const each of reserved) sum += each[kind];
  return sum;
}

function readAmounts(path: string): Omit<Counted, "date"> {
  const amounts = noAmounts();
  try {
    const read = JSON.parse(Deno.readTextFileSync(path));
    for (const kind of KINDS) if (read[kind] > 0) amounts[kind] = Number(read[kind]);
    return { amounts, reserved: read.reserved ?? [] };
  } catch (error) {
    // None yet.
    if (error instanceof Deno.errors.NotFound) return { amounts, reserved: [] };
    return { amounts, reserved: [], unknown: `${path} cannot be read` };
  }
}
