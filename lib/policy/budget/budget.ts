/**
 * Budgets of one session (docs/design/contracts/04-profiles.md §4, "Budgets"): an event's possible usage is
 * reserved before it is sent, so that calls at the same time overspend by at most one of them.
 */
import type { Event } from "../../event/mod.ts";
import {
  type Amounts,
  type Bill,
  billOf,
  type CallAmounts,
  type CallUse,
  type Cost,
  exactAmounts,
  type Kind,
  KINDS,
  KINDS_OF,
  type LaterUse,
  mostOf,
  noAmounts,
  usedBy,
} from "./amount.ts";
import type { DayLimit, DaySpending } from "./day.ts";
import type { BudgetTerms, BudgetUse } from "./schema.ts";

/** Author of a budget; the budgets of both apply. */
export type BudgetLayer = "corp" | "profile";
export type LayeredTerms = Partial<Record<BudgetLayer, BudgetTerms>>;

/** A limit that an event reaches. */
export interface Limit {
  id: string;
  layer: BudgetLayer;
  reason: string;
  on: BudgetTerms["on_limit"];
  /** how to lift a block; absent: raise the budget */
  remedy?: string;
}

/** Amounts of one event, for the record; they replace its earlier ones. */
export interface Spending extends Partial<CallAmounts> {
  event_id: string;
  /** in addition to the bytes that the decision knew */
  bytes_out?: number;
  /** minutes of the session so far */
  minutes: number;
}

/** A session's usage before this process. */
export interface Spent {
  total: Amounts;
  /** since midnight, UTC */
  today: Amounts;
}

export interface BudgetOptions {
  terms: LayeredTerms;
  cost: Cost;
  /** spending of the profile today; needed for limits per day */
  day?: DaySpending;
  /** usage before this process; a text: the reason why it is unknown, so that every event is refused */
  before?: Spent | string;
  /** records a call's amounts, before it is sent and after each change */
  record?(spending: Spending): void;
  /** called once for each limit that is nearly used up */
  notice(event: Event, text: string): void;
  /** unix `ms`; for tests */
  now?(): number;
}

/** Share of a limit at which people are notified. */
const NOTICE_AT = 0.8;
/** Share of a limit of bytes after which the bytes of running events are recorded: a kill loses no more. */
const RECORD_AT = 0.01;
/** Most calls remembered whose answers are fetched later; the oldest stay counted by their reservations. */
const LATER_MAX = 1000;

/** Interval, in `ms`, at which a call checks again whether calls of other sessions leave it room. */
const CLAIM_MS = 300;

/** Result of reserving one event's usage. */
export interface Reservation {
  /** limit that left no room; absent: the usage is reserved */
  limit?: Limit;
  /** reserves in spite of the limit, because a person allowed the event */
  take(): void;
  /** gives back the reservation of an event that is not sent */
  release(): void;
}

/** One entry of one author's `[budget]`. */
interface Bound {
  kind: Kind;
  layer: BudgetLayer;
  max: number;
  isDaily: boolean;
  on: BudgetTerms["on_limit"];
  uncounted: BudgetTerms["uncounted"];
}

/** A call whose count is not final. */
interface Counting {
  bill: Bill;
  amounts: CallAmounts;
}

/**
 * The budgets of one session and their usage. An event goes through `reserve`, then `settle` or the
 * reservation's `release`; calls whose answers are fetched later go through `correct` as well.
 */
export class Budget {
  readonly #options: BudgetOptions;
  readonly #startedAt: number;
  readonly #minutesBefore: number;
  /** reason why earlier usage is unknown */
  readonly #unknown?: string;
  #bounds: Bound[];
  readonly #spent: Amounts;
  /** reservations of running calls, by event id */
  readonly #reserved = new Map<string, Counting>();
  /** calls counted by their reservations, by the key under which their answer can be fetched */
  readonly #later = new Map<string, Counting & { event: Event; date?: string }>();
  /** bytes that running events sent beyond the bytes their decisions knew, by event id */
  readonly #sent = new Map<string, number>();
  /** events of `#sent` whose bytes have changed since they were recorded */
  readonly #unrecorded = new Set<string>();
  /** sum of those changes */
  #unrecordedBytes = 0;
  /** events that a person allowed at a limit, by event id */
  readonly #allowed = new Set<string>();
  /** minutes that the day has counted */
  #notedMinutes: number;
  /** wakes calls that wait for room */
  #waiting: (() => void)[] = [];
  /** limits that people were notified of */
  readonly #notified = new Set<string>();

  constructor(options: BudgetOptions) {
    const { before, day } = this.#options = options;
    this.#startedAt = this.#now();
    this.#bounds = boundsOf(options.terms);
    if (typeof before === "string") this.#unknown = before;
    const spent = typeof before === "object" ? before : undefined;
    this.#spent = { ...spent?.total ?? noAmounts(), minutes: 0 };
    this.#notedMinutes = this.#minutesBefore = spent?.total.minutes ?? 0;
    if (spent) day?.restore(spent.today);
  }

  /** Replaces the limits; spending stays. */
  use(terms: LayeredTerms): void {
    this.#bounds = boundsOf(terms);
    this.#notified.clear();
    this.#wake();
  }

  /** True while a limit counts the usage of model calls. */
  get countsModels(): boolean {
    return this.#bounds.some(isOfCalls);
  }

  /**
   * Reserves an event's possible usage. Waits while running calls may use up the rest of a limit.
   *
   * @param signal the client's; a call whose client has left does not wait
   * @returns `undefined` if no limit counts the event
   */
  async reserve(event: Event, bill?: Bill, signal?: AbortSignal): Promise<Reservation | undefined> {
    const kinds = KINDS_OF[event.common.event_type];
    if (kinds === undefined || this.#bounds.length === 0) return undefined;
    const counting = event.model && { bill: bill ?? billOf(event), amounts: { tokens: 0, usd: 0 } };
    const amounts = counting
      ? counting.amounts = mostOf(event, counting.bill, this.#options.cost)
      : exactAmounts(event);
    const bounds = () => this.#bounds.filter(({ kind }) => kinds.includes(kind));
    let date: string | undefined;
    const release = () => this.#release(event, amounts, date);
    const take = () => {
      date = this.#options.day?.date;
      this.#take(event, amounts, counting);
    };
    const { event_id } = event.common;
    for (let isClaimed = false;;) {
      const limit = this.#limitFor(event, bounds(), amounts, counting?.bill);
      if (limit) {
        this.#options.day?.unclaim(event_id);
        return { limit, release, take: () => (take(), void this.#allowed.add(event_id)) };
      }
      // A request whose client is gone is not sent.
      const mayWait = !signal?.aborted;
      if (mayWait && this.#isCrowded(bounds(), amounts)) {
        this.#options.day?.unclaim(event_id);
        isClaimed = false;
        await this.#settled(signal);
        continue;
      }
      const daily = counting && mayWait && !isClaimed ? bounds().filter(isDayLimit) : [];
      if (daily.length === 0 || !this.#options.day) {
        take();
        return { release, take: () => {} };
      }
      isClaimed = await this.#options.day.claim(event_id, counting!.amounts, daily);
      if (!isClaimed) await this.#settled(signal, CLAIM_MS);
    }
  }

  /** Counts a call's usage, once its response has ended. */
  settle(event: Event, response: unknown, use: CallUse, bill?: Bill): void {
    const { event_id, event_type } = event.common;
    const bytes_out = this.#sent.get(event_id);
    this.#sent.delete(event_id);
    this.#unrecorded.delete(event_id);
    this.#allowed.delete(event_id);
    if (event_type !== "model.call") {
      if (bytes_out !== undefined) this.#options.record?.({ event_id, bytes_out, minutes: this.minutes });
      return;
    }
    const counting = this.#reserved.get(event_id);
    this.#reserved.delete(event_id);
    this.#options.day?.unclaim(event_id);
    const own = counting?.bill ?? bill ?? billOf(event);
    const amounts = usedBy(event, own, response, use, this.#options.cost);
    if (use.later !== undefined && (use.pending || !use.complete) && amounts.tokens > 0) {
      this.#later.set(use.later, { event, bill: own, amounts, date: this.#options.day?.date });
      if (this.#later.size > LATER_MAX) this.#later.delete(this.#later.keys().next().value!);
    }
    this.#spend(event, amounts);
    this.#wake();
    // Last: where it fails, the record keeps the reservation.
    this.#record(event, amounts);
  }

  /**
   * Counts bytes that the decision on an event did not know.
   *
   * @param bytes all of them so far
   * @returns the limit that they exceed, unless a person allowed the event at a limit
   */
  countSent(event: Event, bytes: number): Limit | undefined {
    const bounds = this.#bounds.filter(({ kind }) => kind === "bytes_out");
    if (bounds.length === 0) return undefined;
    const { event_id } = event.common;
    const more = bytes - (this.#sent.get(event_id) ?? 0);
    this.#spend(event, { bytes_out: more });
    this.#sent.set(event_id, bytes);
    this.#unrecorded.add(event_id);
    this.#unrecordedBytes += more;
    if (this.#unrecordedBytes >= RECORD_AT * Math.min(...bounds.map(({ max }) => max))) this.#recordSent();
    const bound = this.#allowed.has(event_id)
      ? undefined
      : bounds.find((each) => this.#usedOf(each) > each.max);
    return bound && usedUp(bound);
  }

  #recordSent(): void {
    for (const event_id of this.#unrecorded) {
      this.#options.record?.({ event_id, bytes_out: this.#sent.get(event_id)!, minutes: this.minutes });
    }
    this.#unrecorded.clear();
    this.#unrecordedBytes = 0;
  }

  /** Counts a call again by an answer that was fetched later. */
  correct({ key, input, output, answers }: LaterUse): void {
    const counting = this.#later.get(key);
    if (!counting || answers < (counting.bill.answers ?? 1)) return;
    this.#later.delete(key);
    const { event, amounts, bill: { parts }, date } = counting;
    const { provider, model } = event.model!.request;
    // The counts of a call to several models do not say which model used what.
    const cost = parts.length > 1 ? undefined : this.#options.cost(provider, model, { input, output });
    const exact = { tokens: input + output, usd: cost === undefined ? amounts.usd : cost / 1e6 };
    this.#spend(event, { tokens: exact.tokens - amounts.tokens, usd: exact.usd - amounts.usd }, date);
    this.#wake();
    this.#record(event, exact);
  }

  /** True for an answer whose fetch would correct a count. */
  awaits(key: string): boolean {
    return this.#later.has(key);
  }

  /** Usage of each limit; corp's limits first. */
  uses(): BudgetUse[] {
    return this.#bounds.map((bound) => ({
      layer: bound.layer,
      limit: keyOf(bound),
      used: this.#usedOf(bound),
      max: bound.max,
      on_limit: bound.on,
    }));
  }

  /** Minutes of the session, including its earlier processes. */
  get minutes(): number {
    return this.#minutesBefore + (this.#now() - this.#startedAt) / 60_000;
  }

  /** First limit that leaves no room for the event, regardless of running calls. */
  #limitFor(
    event: Event,
    bounds: readonly Bound[],
    amounts: Partial<Amounts>,
    bill: Bill | undefined,
  ): Limit | undefined {
    const isFree = bill?.parts.length === 0 && bill.fault === undefined;
    for (const bound of bounds) {
      const { kind, max, isDaily } = bound;
      if (isFree && isOfCalls(bound)) continue;
      const limit = (reason: string) => limitOf(bound, reason);
      const unknown = this.#unknown ?? (isDaily ? this.#options.day?.unknown() : undefined);
      if (unknown !== undefined) {
        return {
          ...limit(`the budget cannot be kept: ${unknown}`),
          on: "block",
          remedy: "sbx verify VM checks its record; then stop and start the VM",
        };
      }
      if (bill?.fault !== undefined && isOfCalls(bound) && bound.uncounted !== "allow") {
        return {
          ...limit(`the budget cannot count this request to a model: ${bill.fault}`),
          on: bound.uncounted,
          remedy:
            "send it in a form that docs/guides/budgets.md lists as counted, or set uncounted in [budget]",
        };
      }
      const unpriced = kind === "usd" ? this.#unpriced(event, bill) : undefined;
      if (unpriced !== undefined) return limit(unpriced);
      const used = this.#usedOf(bound);
      // Requests and bytes are known in advance; the usage of a call is not, so one call may exceed it.
      const next = kind === "requests" || kind === "bytes_out" ? amounts[kind] ?? 0 : 0;
      if (next > 0 ? used + next > max : used >= max) return usedUp(bound);
    }
  }

  /** True while running calls and this one together may exceed a limit. */
  #isCrowded(bounds: readonly Bound[], amounts: Partial<Amounts>): boolean {
    if (this.#reserved.size === 0) return false;
    return bounds.some((bound) => {
      const { kind, max } = bound;
      if (kind !== "usd" && kind !== "tokens") return false;
      const reserved = [...this.#reserved.values()].reduce((sum, each) => sum + each.amounts[kind], 0);
      return this.#usedOf(bound) + reserved + (amounts[kind] ?? 0) > max;
    });
  }

  #take(event: Event, amounts: Partial<Amounts>, counting: Counting | undefined): void {
    if (!counting) return this.#spend(event, amounts);
    const { event_id } = event.common;
    try {
      this.#record(event, counting.amounts);
    } catch (error) {
      this.#options.day?.unclaim(event_id);
      throw error;
    }
    this.#reserved.set(event_id, counting);
  }

  #release(event: Event, amounts: Partial<Amounts>, date: string | undefined): void {
    const { event_id } = event.common;
    if (!event.model) return this.#spend(event, negated(amounts), date);
    this.#options.day?.unclaim(event_id);
    const wasReserved = this.#reserved.delete(event_id);
    this.#wake();
    if (wasReserved) this.#record(event, { tokens: 0, usd: 0 });
  }

  #record({ common: { event_id } }: Event, { tokens, usd }: CallAmounts): void {
    if (this.countsModels) this.#options.record?.({ event_id, tokens, usd, minutes: this.minutes });
  }

  /** Adds to the usage. @param date day that counted amounts now given back; absent: today */
  #spend(event: Event, amounts: Partial<Amounts>, date?: string): void {
    for (const kind of KINDS) this.#spent[kind] += amounts[kind] ?? 0;
    this.#options.day?.add({ ...amounts, minutes: this.minutes - this.#notedMinutes }, date);
    this.#notedMinutes = this.minutes;
    for (const bound of this.#bounds) this.#notify(event, bound);
  }

  #notify(event: Event, bound: Bound): void {
    const { kind, layer, max, isDaily } = bound;
    const key = `${layer} ${kind} ${isDaily}`;
    const used = this.#usedOf(bound);
    if (used < max * NOTICE_AT || this.#notified.has(key)) return;
    this.#notified.add(key);
    const share = Math.floor(used / max * 100);
    this.#options.notice(
      event,
      `${share} % of the budget of ${max} ${WORDS[kind]}${isDaily ? " a day" : ""} is used`,
    );
  }

  #usedOf({ kind, isDaily }: Bound): number {
    if (isDaily) {
      const since = kind === "minutes" ? this.minutes - this.#notedMinutes : 0;
      return (this.#options.day?.total(kind) ?? 0) + since;
    }
    return kind === "minutes" ? this.minutes : this.#spent[kind];
  }

  /** Reason why a call has no known price; undefined if it has one. */
  #unpriced({ model }: Event, bill: Bill | undefined): string | undefined {
    if (!model || !bill) return undefined;
    if (bill.unpriced !== undefined) return `the budget cannot count US dollars: ${bill.unpriced}`;
    const isPriced = ({ model: name }: { model: string }) =>
      this.#options.cost(model.request.provider, name, { input: 1, output: 1 }) !== undefined;
    const part = bill.parts.find((part) => !isPriced(part));
    if (!part) return undefined;
    return `the price of ${part.model} is not known, so the budget cannot count it; ` +
      "network.model_price_file adds prices";
  }

  /** Waits until a call ends or the client leaves. @param ms longest wait; other sessions' calls wake none */
  #settled(signal: AbortSignal | undefined, ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      const end = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#waiting.push(end);
      signal?.addEventListener("abort", end, { once: true });
    });
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

const IDS = new Set(KINDS.flatMap((kind) => [`budget-${kind}`, `budget-per_day_${kind}`]));

/** True for the rule id of a budget, in decision records. */
export function isBudget(ruleId: string): boolean {
  return IDS.has(ruleId);
}

function limitOf(bound: Bound, reason: string): Limit {
  return { id: `budget-${keyOf(bound)}`, layer: bound.layer, reason, on: bound.on };
}

function usedUp(bound: Bound): Limit {
  const { kind, max, isDaily } = bound;
  return limitOf(bound, `the budget of ${max} ${WORDS[kind]}${isDaily ? " a day" : ""} is used up`);
}

function isDayLimit(bound: Bound): bound is Bound & DayLimit {
  return bound.isDaily && isOfCalls(bound);
}

/** True for limits of dollars and tokens, which only model calls use. */
function isOfCalls({ kind }: Bound): boolean {
  return kind === "usd" || kind === "tokens";
}

const WORDS: Record<Kind, string> = {
  usd: "US dollars",
  tokens: "tokens",
  requests: "requests",
  bytes_out: "bytes sent",
  minutes: "minutes",
};

/** Key of a limit in `[budget]`. */
function keyOf({ kind, isDaily }: Bound): keyof BudgetTerms {
  return isDaily ? `per_day_${kind}` : kind;
}

function boundsOf(terms: LayeredTerms): Bound[] {
  return (["corp", "profile"] as const).flatMap((layer) => {
    const own = terms[layer];
    if (!own) return [];
    return KINDS.flatMap((kind): Bound[] => {
      const [max, daily] = [own[kind], own[`per_day_${kind}`]];
      const bound = { kind, layer, on: own.on_limit, uncounted: own.uncounted };
      return [
        ...(max === undefined ? [] : [{ ...bound, max, isDaily: false }]),
        ...(daily === undefined ? [] : [{ ...bound, max: daily, isDaily: true }]),
      ];
    });
  });
}

function negated(amounts: Partial<Amounts>): Partial<Amounts> {
  return Object.fromEntries(Object.entries(amounts).map(([kind, amount]) => [kind, -amount]));
}
