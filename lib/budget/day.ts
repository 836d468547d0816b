/** Spending of a profile on one day: a file for each session, which the sessions of the profile read. */
import { join } from "node:path";
import { writeAtomic } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";
import { type Amounts, type Kind, KINDS, noAmounts } from "./amount.ts";

/** `ms` for which the spending of other sessions is remembered, and after which one's own is written. */
const FRESH_MS = 500;

export class DaySpending {
  readonly #dir: string;
  readonly #session: string;
  readonly #now: () => number;
  #own: Counted = { date: "", amounts: noAmounts() };
  #others: Counted & { at: number } = { date: "", at: -Infinity, amounts: noAmounts() };
  #isWriting = false;

  /** @param dir of the profile; made with the first spending */
  constructor(dir: string, session: string, now = Date.now) {
    this.#dir = dir;
    this.#session = session;
    this.#now = now;
  }

  add(amounts: Partial<Amounts>): void {
    this.#turn();
    for (const kind of KINDS) this.#own.amounts[kind] += amounts[kind] ?? 0;
    if (this.#isWriting) return;
    this.#isWriting = true;
    backgroundTimeout(() => this.flush().catch((error) => log.warn(error)), FRESH_MS);
  }

  /** Counts what the session's own record has of today, where the file has less: it is written later. */
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

  /** Writes what was spent since the last time. */
  async flush(): Promise<void> {
    this.#isWriting = false;
    const { date, amounts } = this.#own;
    if (date === "") return;
    const dir = join(this.#dir, date);
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    await writeAtomic(join(dir, `${this.#session}.json`), JSON.stringify(amounts));
  }

  /** Begins a day, with what this session has on record of it. */
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
    let unknown: string | undefined;
    try {
      for (const { name } of Deno.readDirSync(dir)) {
        if (name === `${this.#session}.json` || !name.endsWith(".json")) continue;
        const other = readAmounts(join(dir, name));
        unknown ??= other.unknown;
        for (const kind of KINDS) amounts[kind] += other.amounts[kind];
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) unknown = `${dir} cannot be read`;
    }
    this.#others = { date, at: this.#now(), amounts, unknown };
    return amounts;
  }
}

/** Amounts of a day. */
interface Counted {
  date: string;
  amounts: Amounts;
  /** why they are not all, as a clause */
  unknown?: string;
}

function readAmounts(path: string): Pick<Counted, "amounts" | "unknown"> {
  const amounts = noAmounts();
  try {
    const read = JSON.parse(Deno.readTextFileSync(path));
    for (const kind of KINDS) if (read[kind] > 0) amounts[kind] = Number(read[kind]);
  } catch (error) {
    // None yet.
    if (!(error instanceof Deno.errors.NotFound)) return { amounts, unknown: `${path} cannot be read` };
  }
  return { amounts };
}
