/**
 * Matches events with plans of Sigma rules
 * (docs/design/contracts/06-detection.md §6), without zod and parser.
 */
import type { Event } from "../../../event/mod.ts";
import type { Matchable } from "../../match/index_node.ts";
import { pathOf, type PlanExpr, type PlanRule, type SigmaPlan, sourcesOf } from "../plan.ts";
import { History } from "./history.ts";
import { choose, TextIndex } from "./index.ts";
import { requirementsOf } from "./literal.ts";
import { Parents } from "./parents.ts";
import { Slot, type Texts, View } from "./slot.ts";
import { VALUE_MAX } from "./tally.ts";
import { type Check, compileExpr, isNumber } from "./test.ts";

/** Which rules are tried: the ones that wait for a response, the others, or all. */
export type MatchPhase = "request" | "response" | "whole";

/** A rule ready to run. */
interface Runner {
  rule: PlanRule;
  plan: number;
  check: Check;
  /** number of the event for which it was tried last */
  stamp: number;
}

/** Rules of one event type, in each phase. */
interface TypeIndexes {
  request: PhaseIndex | undefined;
  response: PhaseIndex | undefined;
}

interface PhaseIndex {
  /** tried on every event */
  always: Runner[];
  fields: { slot: Slot; index: TextIndex<Runner> }[];
  words?: TextIndex<Runner>;
}

/** A rule or correlation that matched. */
export interface EngineHit {
  plan: number;
  id: string;
}

/** Most event types whose rules are kept at hand. */
const TYPES_MAX = 64;
const NO_HITS: readonly EngineHit[] = [];

/** Plans in force. */
export class RuleEngine {
  readonly #view = new View();
  readonly #slots = new Map<string, Slot>();
  readonly #runners: Runner[] = [];
  readonly #indexes = new Map<string, TypeIndexes>();
  #lastType = "";
  #last: TypeIndexes = { request: undefined, response: undefined };
  #matched: Runner[] = [];
  readonly #histories: { plan: number; key: string; history: History }[] = [];
  readonly #parents: Parents | undefined;

  /** @param before engine whose memory continues, where its correlations are the same */
  constructor(readonly plans: readonly SigmaPlan[], before?: RuleEngine) {
    const all = plans.reduce((sum, { correlations }) => sum + correlations.length, 0);
    for (const [plan, { rules, correlations, pack_id }] of plans.entries()) {
      for (const rule of rules) this.#runners.push({ rule, plan, check: this.#compile(rule), stamp: 0 });
      for (const correlation of correlations) {
        const key = `${pack_id} ${JSON.stringify(correlation)}`;
        this.#histories.push({ plan, key, history: new History(correlation, all) });
      }
    }
    const readsParents = [...this.#slots.keys()].some((key) => key.includes("parent."));
    if (readsParents) this.#parents = new Parents();
    if (before) this.#adopt(before);
  }

  get isEmpty(): boolean {
    return this.#runners.length === 0;
  }

  /** Evaluates one event. @returns the rules and correlations that make findings, without an order */
  match(event: Matchable, phase: MatchPhase = "whole"): readonly EngineHit[] {
    if (this.#runners.length === 0) return NO_HITS;
    this.#run(event, phase);
    if (phase !== "response" && event.common.event_type === "process.exec") this.#parents?.note(event);
    const matched = this.#matched;
    if (matched.length === 0) return NO_HITS;
    this.#matched = [];
    const hits: EngineHit[] = [];
    for (const { plan, rule } of matched) if (!rule.silent) hits.push({ plan, id: rule.id });
    if (this.#histories.length > 0) this.#correlate(event, matched, hits);
    return hits;
  }

  /** Fields whose values decide whether an event matches any rule. */
  get reads(): readonly string[] | "all" | "history" {
    if (this.#parents) return "history";
    const exprs = this.#runners.flatMap(({ rule }) => [rule.condition, ...rule.selections]);
    return exprs.some(hasWords) ? "all" : exprs.flatMap(sourcesOf).flatMap((source) => pathOf(source) ?? []);
  }

  /** Tests whether any rule matches an event, of which nothing is remembered. */
  mayHit(event: Matchable): boolean {
    if (this.#runners.length === 0) return false;
    this.#run(event, "whole");
    return this.#matched.length > 0;
  }

  /** Tries the rules on an event, and keeps the ones that matched. */
  #run(event: Matchable, phase: MatchPhase): void {
    this.#view.next(event, this.#parents?.of(event));
    // Matches of another event: a test threw, or only their number was asked for.
    if (this.#matched.length > 0) this.#matched = [];
    const { request, response } = this.#indexesOf(event.common.event_type);
    if (request && phase !== "response") this.#collect(request);
    if (response && phase !== "request") this.#collect(response);
  }

  #adopt(before: RuleEngine): void {
    const others = new Map(before.#histories.map(({ key, history }) => [key, history]));
    for (const { key, history } of this.#histories) {
      const other = others.get(key);
      if (other) history.adopt(other);
    }
    if (before.#parents) this.#parents?.adopt(before.#parents);
  }

  #slotOf(on: readonly string[]): Slot {
    const key = on.join("|");
    let slot = this.#slots.get(key);
    if (!slot) this.#slots.set(key, slot = new Slot(this.#view, on));
    return slot;
  }

  #compile({ selections, condition }: PlanRule): Check {
    const checks: Check[] = [];
    const context = {
      view: this.#view,
      selections: checks,
      slotOf: (on: readonly string[]) => this.#slotOf(on),
    };
    for (const selection of selections) checks.push(compileExpr(selection, context));
    return compileExpr(condition, context);
  }

  #indexesOf(type: string): TypeIndexes {
    // Events of one type often follow each other, and comparing is faster than hashing.
    if (type === this.#lastType) return this.#last;
    let indexes = this.#indexes.get(type);
    if (!indexes) {
      indexes = { request: this.#indexOf(type, false), response: this.#indexOf(type, true) };
      // A hostile file may have any number of types.
      if (this.#indexes.size < TYPES_MAX) this.#indexes.set(type, indexes);
    }
    this.#lastType = type;
    return this.#last = indexes;
  }

  readonly #attempt = (runner: Runner): void => {
    if (runner.stamp === this.#view.stamp) return;
    runner.stamp = this.#view.stamp;
    if (runner.check()) this.#matched.push(runner);
  };

  #collect({ fields, words, always }: PhaseIndex): void {
    for (let at = 0; at < fields.length; at++) this.#find(fields[at].slot, fields[at].index);
    if (words) this.#find(this.#view.words, words);
    for (let at = 0; at < always.length; at++) this.#attempt(always[at]);
  }

  #find(texts: Texts, index: TextIndex<Runner>): void {
    const { folded } = texts;
    for (let at = 0; at < folded.length; at++) index.find(folded[at], this.#attempt);
  }

  #indexOf(type: string, isResponse: boolean): PhaseIndex | undefined {
    const runners = this.#runners.filter(({ rule }) =>
      rule.event_types.includes(type) && (rule.reads_response ?? false) === isResponse
    );
    if (runners.length === 0) return undefined;
    const always: Runner[] = [];
    const byField = new Map<string, { on?: readonly string[]; literals: Literals }>();
    for (const { rule: runner, requirement } of choose(runners.map(withRequirements))) {
      if (!requirement) always.push(runner);
      for (const literal of requirement ?? []) {
        const key = literal.on?.join("|") ?? "";
        const field = byField.get(key) ?? { ...literal.on && { on: literal.on }, literals: [] };
        byField.set(key, field);
        field.literals.push({ literal, rule: runner });
      }
    }
    const fields: PhaseIndex["fields"] = [];
    let words: TextIndex<Runner> | undefined;
    for (const { on, literals } of byField.values()) {
      const index = new TextIndex(literals);
      if (on) fields.push({ slot: this.#slotOf(on), index });
      else words = index;
    }
    return { always, fields, ...words && { words } };
  }

  /** Feeds the matches to the correlations, and their matches to the later ones. */
  #correlate(event: Matchable, matched: readonly Runner[], hits: EngineHit[]): void {
    const { session_id = "" } = event.common as Partial<Event["common"]>;
    const time = event.common.timestamp_unix_ms ?? 0;
    /** rules and correlations that matched, each with the rule whose fields count */
    const found = matched.map(({ plan, rule }) => ({ plan, id: rule.id, base: rule.id }));
    for (const { plan, history } of this.#histories) {
      const { correlation } = history;
      let base: string | undefined;
      for (const each of found) {
        if (each.plan !== plan || !history.counts(each.id)) continue;
        const values = this.#values(correlation.group_by[each.base] ?? [])
          .map((value) => value === null ? null : value.slice(0, VALUE_MAX));
        const counted = correlation.field && this.#values([correlation.field[each.base] ?? []])[0];
        const occurrence = { rule_id: each.id, time, group: JSON.stringify([session_id, ...values]) };
        // A field that is not there is no value to count.
        if (correlation.field && counted === null) continue;
        if (correlation.type === "value_sum" && !isAmount(counted!)) continue;
        if (history.add({ ...occurrence, ...counted && { value: counted } })) base ??= each.base;
      }
      if (base === undefined) continue;
      found.push({ plan, id: correlation.id, base });
      if (!correlation.silent) hits.push({ plan, id: correlation.id });
    }
  }

  #values(fields: readonly (readonly string[])[]): (string | null)[] {
    return fields.map((on) => on.length === 0 ? null : this.#slotOf(on).texts[0] ?? null);
  }
}

/** Tests whether an expression searches every text of an event. */
function hasWords(expr: PlanExpr): boolean {
  if (typeof expr === "boolean") return false;
  if ("all" in expr) return expr.all.some(hasWords);
  if ("any" in expr) return expr.any.some(hasWords);
  return "not" in expr ? hasWords(expr.not) : "words" in expr;
}

/** Tests whether a text is a number that a sum can have. */
function isAmount(text: string): boolean {
  return isNumber(text) && Number.isFinite(Number(text));
}

type Literals = ConstructorParameters<typeof TextIndex<Runner>>[0][number][];

function withRequirements(runner: Runner) {
  return { rule: runner, requirements: requirementsOf(runner.rule) };
}
