/**
 * Rules with the action `observe`: they find, and decide nothing
 * (docs/design/contracts/05-policy.md §5, "Observing").
 */
import { type Event, type EventType, familyOf, type Finding } from "../../event/mod.ts";
import type { RuleFailure } from "../decision/mod.ts";
import { celMessage, type CompiledRule, isOfResponse } from "./compile.ts";
import { FlatEvent } from "./field.ts";
import { buildIndex, type TypeIndex } from "./lookup.ts";
import { ruleLabel } from "./rule.ts";
import { findingOf, runProgram } from "./run.ts";

/** What rules that only observe found in an event. */
export interface Observation {
  findings: Finding[];
  /** rules that failed on it: whether they match is not known */
  failures: RuleFailure[];
}

/** Part of an event's life: each rule is evaluated in one of them, where all that it reads is known. */
export type ObservePhase = "request" | "response";

/** The rules of a policy that only observe, with an index of their own. */
export class Observers {
  /** in the order of {@linkcode compareRules} */
  readonly rules: readonly CompiledRule[];
  readonly #requests: Map<EventType, TypeIndex>;
  readonly #responses: Map<EventType, TypeIndex>;
  /** some rule reads responses */
  readonly readsResponses: boolean;

  constructor(rules: readonly CompiledRule[]) {
    this.rules = rules;
    rules.forEach((rule, at) => rule.order = at);
    const readsResponse = ({ paths }: CompiledRule) => paths.some(isOfResponse);
    this.readsResponses = rules.some(readsResponse);
    this.#requests = buildIndex(rules.filter((rule) => !readsResponse(rule)));
    this.#responses = buildIndex(rules.filter(readsResponse));
  }

  /**
   * Findings of the rules that match an event, or a reading of it: one of each rule.
   *
   * @param readings the event as others may read it, for which rules that restrict hold too
   * @param phase absent: both, of an event that has its response if it gets one
   */
  find(event: Event, readings: readonly Event[], phase?: ObservePhase): Observation {
    const { event_type, event_id } = event.common;
    const family = event[familyOf(event_type) as "http"] as { response?: unknown } | undefined;
    const indexes = [
      ...phase === "response" ? [] : [this.#requests],
      // A rule about a response waits until there is one.
      ...family?.response === undefined ? [] : [this.#responses],
    ].flatMap((index) => index.get(event_type) ?? []);
    const matched = new Set<CompiledRule>();
    const failures = new Map<CompiledRule, RuleFailure>();
    for (const reading of [event, ...readings]) {
      const flat = new FlatEvent(reading);
      for (const rule of indexes.flatMap((index) => [...index.find(reading), ...index.always])) {
        if (matched.has(rule)) continue;
        try {
          const value = runProgram(rule.program, flat);
          if (typeof value !== "boolean") throw new Error("the result is not a bool on this event");
          if (value) matched.add(rule);
        } catch (error) {
          const message = `${ruleLabel(rule.rule)} failed: ${celMessage(error)}`;
          failures.set(rule, { rule_id: rule.rule.id, event_id, message });
        }
      }
    }
    const ordered = [...matched].sort((a, b) => a.order - b.order);
    return { findings: ordered.map(({ rule }) => findingOf(rule, event)), failures: [...failures.values()] };
  }
}
