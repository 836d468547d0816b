/**
 * Budgets of one session (docs/contracts.md §4, "Budgets"): what an event can use is reserved before it is sent, so that
 * calls at the same time overspend by at most one of them.
 */
import type { Event } from "../event/mod.ts";
import {
  type Amounts,
  type Cost,
  isBilled,
  type Kind,
  KINDS,
  KINDS_OF,
  mostOf,
  noAmounts,
  usedBy,
} from "./amount.ts";
import type { DaySpending } from "./day.ts";
import type { BudgetTerms, BudgetUse } from "./schema.ts";

/** Author of a budget; both hold. */
export type BudgetLayer = "corp" | "profile";
export type LayeredTerms = Partial<Record<BudgetLayer, BudgetTerms>>;

/** A limit that an event meets. */
export interface Limit {
  id: string;
  layer: BudgetLayer;
  reason: string;
  on: BudgetTerms["on_limit"];
}

export interface BudgetOptions {
  terms: LayeredTerms;
  cost: Cost;
  /** spending of the profile today; needed for limits per day */
  day?: DaySpending;
  /** told once of each limit of which most is used */
  notice(event: Event, text: string): void;
  /** unix `ms`; for tests */
  now?(): number;
}

/** Part of a limit at which people are told. */
const NOTICE_AT = 0.8;

/** What one event has reserved. */
export interface Reservation {
  /** absent: there is room */
  limit?: Limit;
  /** gives back what an event reserved that is not sent */
  release(): void;
}

/** One limit of one author. */
interface Bound {
  kind: Kind;
  layer: BudgetLayer;
  max: number;
  isDaily: boolean;
  on: BudgetTerms["on_limit"];
}

export class Budget {
  readonly #options: BudgetOptions;
  readonly #startedAt: number;
  #bounds: Bound[];
  readonly #spent = noAmounts();
  /** of calls under way, by event id */
  readonly #reserved = new Map<string, Pick<Amounts, "usd" | "tokens">>();
  /** minutes that the day has counted */
  #notedMinutes = 0;
  #waiting: (() => void)[] = [];
  readonly #told = new Set<string>();

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#startedAt = this.#now();
    this.#bounds = boundsOf(options.terms);
  }

  /** Replaces the limits; what was spent stays. */
  use(terms: LayeredTerms): void {
    this.#bounds = boundsOf(terms);
    this.#told.clear();
    this.#wake();
  }

  /** Reserves what an event can use; waits while calls under way may use up the rest. `undefined` for what no limit counts. */
  async reserve(event: Event, signal?: AbortSignal): Promise<Reservation | undefined> {
    const kinds = KINDS_OF[event.common.event_type];
    if (kinds === undefined) return undefined;
    const bounds = () => this.#bounds.filter(({ kind }) => kinds.includes(kind));
    if (bounds().length === 0 && this.#bounds.length === 0) return undefined;
    const amounts = this.#amountsOf(event);
    while (true) {
      const limit = this.#limitFor(event, bounds(), amounts);
      if (limit) return { limit, release: () => {} };
      if (signal?.aborted || !this.#isCrowded(bounds(), amounts)) break;
      await this.#settled(signal);
    }
    return this.#take(event, amounts);
  }

  /** Counts what a call has used, once its response has ended. */
  settle(event: Event, response: unknown): void {
    if (event.common.event_type !== "model.call") return;
    this.#reserved.delete(event.common.event_id);
    this.#spend(event, usedBy(event, response, this.#options.cost));
    this.#wake();
  }

  /** How far each limit is used up; corp's first. */
  uses(): BudgetUse[] {
    return this.#bounds.map((bound) => ({
      layer: bound.layer,
      limit: keyOf(bound),
      used: this.#usedOf(bound),
      max: bound.max,
      on_limit: bound.on,
    }));
  }

  #amountsOf(event: Event): Partial<Amounts> {
    if (event.model) return mostOf(event, this.#options.cost);
    return event.http ? { requests: 1, bytes_out: event.http.request.bytes } : {};
  }

  /** First limit that the event meets, whatever is under way. */
  #limitFor(event: Event, bounds: readonly Bound[], amounts: Partial<Amounts>): Limit | undefined {
    for (const bound of bounds) {
      const { kind, layer, max, isDaily, on } = bound;
      const limit = (reason: string): Limit => ({ id: `budget-${keyOf(bound)}`, layer, reason, on });
      if (kind === "usd" && !this.#hasPrice(event)) {
        return limit(
          `the price of ${event.model!.request.model} is not known, so the budget cannot count it; ` +
            "network.model_price_file adds prices",
        );
      }
      const used = this.#usedOf(bound);
      // The exact kinds are known before; a call is not, so one may go over.
      const next = kind === "requests" || kind === "bytes_out" ? amounts[kind] ?? 0 : 0;
      if (next > 0 ? used + next > max : used >= max) {
        return limit(`the budget of ${max} ${WORDS[kind]}${isDaily ? " a day" : ""} is used up`);
      }
    }
  }

  /** True while calls under way, with this one, may use more than there is. */
  #isCrowded(bounds: readonly Bound[], amounts: Partial<Amounts>): boolean {
    if (this.#reserved.size === 0) return false;
    return bounds.some((bound) => {
      const { kind, max } = bound;
      if (kind !== "usd" && kind !== "tokens") return false;
      const reserved = [...this.#reserved.values()].reduce((sum, each) => sum + each[kind], 0);
      return this.#usedOf(bound) + reserved + (amounts[kind] ?? 0) > max;
    });
  }

  #take(event: Event, amounts: Partial<Amounts>): Reservation {
    const { event_id } = event.common;
    if (event.model) {
      this.#reserved.set(event_id, { usd: amounts.usd ?? 0, tokens: amounts.tokens ?? 0 });
      return {
        release: () => {
          this.#reserved.delete(event_id);
          this.#wake();
        },
      };
    }
    this.#spend(event, amounts);
    return { release: () => this.#spend(event, negated(amounts)) };
  }

  #spend(event: Event, amounts: Partial<Amounts>): void {
    for (const kind of KINDS) this.#spent[kind] += amounts[kind] ?? 0;
    this.#options.day?.add({ ...amounts, minutes: this.#minutes() - this.#notedMinutes });
    this.#notedMinutes = this.#minutes();
    for (const bound of this.#bounds) this.#tell(event, bound);
  }

  #tell(event: Event, bound: Bound): void {
    const { kind, layer, max, isDaily } = bound;
    const key = `${layer} ${kind} ${isDaily}`;
    const used = this.#usedOf(bound);
    if (used < max * NOTICE_AT || this.#told.has(key)) return;
    this.#told.add(key);
    const share = Math.floor(used / max * 100);
    this.#options.notice(
      event,
      `${share} % of the budget of ${max} ${WORDS[kind]}${isDaily ? " a day" : ""} is used`,
    );
  }

  #usedOf({ kind, isDaily }: Bound): number {
    if (isDaily) {
      const since = kind === "minutes" ? this.#minutes() - this.#notedMinutes : 0;
      return (this.#options.day?.total(kind) ?? 0) + since;
    }
    return kind === "minutes" ? this.#minutes() : this.#spent[kind];
  }

  #hasPrice(event: Event): boolean {
    const { model } = event;
    return !model || !isBilled(event) ||
      this.#options.cost(model.request.provider, model.request.model, { input: 1, output: 1 }) !== undefined;
  }

  #minutes(): number {
    return (this.#now() - this.#startedAt) / 60_000;
  }

  #settled(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      signal?.addEventListener("abort", () => resolve(), { once: true });
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

const WORDS: Record<Kind, string> = {
  usd: "US dollars",
  tokens: "tokens",
  requests: "requests",
  bytes_out: "bytes sent",
  minutes: "minutes",
};

/** Its key in `[budget]`. */
function keyOf({ kind, isDaily }: Bound): keyof BudgetTerms {
  return isDaily ? `per_day_${kind}` : kind;
}

function boundsOf(terms: LayeredTerms): Bound[] {
  return (["corp", "profile"] as const).flatMap((layer) => {
    const own = terms[layer];
    if (!own) return [];
    return KINDS.flatMap((kind): Bound[] => {
      const [max, daily] = [own[kind], own[`per_day_${kind}`]];
      const bound = { kind, layer, on: own.on_limit };
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
