import { SbxError } from "../../base/error/mod.ts";
import type { Event, EventType } from "../../event/mod.ts";
import { resetCost } from "./cel.ts";
import { celMessage, type CompiledRule, compileRule, type Program } from "./compile.ts";
import type { AppliedRewrite, Decision, Evaluation, PolicyFinding, RuleFailure } from "./decision.ts";
import { DEFAULT_RULES } from "./defaults.ts";
import { FlatEvent } from "./flat.ts";
import { buildIndex, type TypeIndex } from "./lookup.ts";
import { compareRules, LAYERS, type Rule, ruleLabel, RULES_MAX } from "./rule.ts";
import { matchedFields, nearMisses, remedyFor } from "./why.ts";

/** In order of restriction. */
const RESTRICTION: Decision["decision"][] = ["allow", "ask", "block"];

/** How one evaluation is asked for. */
export interface EvaluateOptions {
  /** look for near misses among all rules, not only among those that were run; for people, not for the hot path */
  explain?: boolean;
}

/** A compiled set of rules: immutable, and shared by every event of a VM. */
export class Policy {
  /** every enabled rule in the order in which they are looked at */
  readonly rules: readonly CompiledRule[];
  readonly #index: Map<EventType, TypeIndex>;

  /** @param rules compiled rules; use {@linkcode compilePolicy} */
  constructor(rules: readonly CompiledRule[]) {
    this.rules = rules.filter(({ rule }) => rule.enabled).sort((a, b) => compareRules(a.rule, b.rule));
    this.rules.forEach((rule, at) => rule.order = at);
    this.#index = buildIndex(this.rules);
  }

  /**
   * Decides on one event (contracts.md §5). Never throws: a rule that fails, or goes over its budget, blocks the
   * event and is reported in `failures`.
   */
  evaluate(event: Event, { explain = false }: EvaluateOptions = {}): Evaluation {
    const run = new Run(this.#index.get(event.common.event_type)!, event, true);
    const evaluation = run.evaluation(explain ? this.rules : undefined);
    if (evaluation.event === event) return evaluation;
    // A rewrite must not lead to where a rule would not have let the event go.
    const again = new Run(this.#index.get(event.common.event_type)!, evaluation.event, false).evaluation();
    const { decision } = evaluation;
    const stricter = RESTRICTION.indexOf(again.decision.decision) > RESTRICTION.indexOf(decision.decision);
    return {
      ...evaluation,
      decision: { ...(stricter ? again.decision : decision), rewrites: decision.rewrites },
      failures: [...evaluation.failures, ...again.failures],
    };
  }
}

/** One pass over the rules that an event has to look at. */
class Run {
  readonly #flat: FlatEvent;
  /** rules that were run and did not match, before the one that decided */
  readonly #passed: CompiledRule[] = [];
  readonly #rewrites: AppliedRewrite[] = [];
  readonly #findings: PolicyFinding[] = [];
  readonly #failures: RuleFailure[] = [];
  #evaluated = 0;
  #decider?: CompiledRule;
  #failure?: string;
  #rewritten: Event;

  constructor(index: TypeIndex, readonly event: Event, readonly rewriting: boolean) {
    this.#flat = new FlatEvent(event);
    this.#rewritten = event;
    this.#look(index.hits(event), index.always);
  }

  /** Goes through two ordered lists as if they were one. */
  #look(hits: CompiledRule[], always: CompiledRule[]): void {
    let hit = 0;
    let other = 0;
    while (hit < hits.length || other < always.length) {
      const next = other >= always.length || (hit < hits.length && hits[hit].order < always[other].order)
        ? hits[hit++]
        : always[other++];
      if (!this.#decider) this.#decide(next);
      // Findings are made whatever was decided.
      else if (next.rule.detection_level && this.#matches(next)) this.#find(next);
    }
  }

  #decide(next: CompiledRule): void {
    const failures = this.#failures.length;
    if (!this.#matches(next)) {
      if (this.#failures.length > failures) {
        this.#decider = next;
        this.#failure = this.#failures.at(-1)!.message;
      } else this.#passed.push(next);
      return;
    }
    if (next.rule.detection_level) this.#find(next);
    if (next.rule.action === "rewrite") this.#rewrite(next);
    else this.#decider = next;
  }

  #matches({ program, rule }: CompiledRule): boolean {
    this.#evaluated++;
    try {
      const value = run(program, this.#flat);
      if (typeof value === "boolean") return value;
      throw new Error("it is neither true nor false on this event");
    } catch (error) {
      this.#failures.push({
        rule_id: rule.id,
        event_id: this.event.common.event_id,
        message: `${ruleLabel(rule)} failed: ${celMessage(error)}`,
      });
      return false;
    }
  }

  #rewrite({ rule, rewrites }: CompiledRule): void {
    if (!this.rewriting) return;
    for (const { op, path, apply } of rewrites) {
      const changed = apply(this.#rewritten);
      if (changed === this.#rewritten) continue;
      this.#rewritten = changed;
      this.#rewrites.push({ rule_id: rule.id, op, path });
    }
  }

  #find({ rule }: CompiledRule): void {
    const { event_id } = this.event.common;
    this.#findings.push({
      finding_id: `finding-${event_id}-${rule.id}`,
      event_id,
      rule_id: rule.id,
      pack_id: `policy.${rule.layer}`,
      title: rule.name,
      severity: rule.detection_level === "informational" ? "info" : rule.detection_level!,
      confidence: "high",
      tags: [],
    });
  }

  evaluation(all?: readonly CompiledRule[]): Evaluation {
    const decision = this.#decision();
    const denied = decision.decision !== "allow";
    if (denied || all) decision.near_misses = nearMisses(this.#flat, this.#candidates(all), denied);
    if (denied) {
      decision.remedy = remedyFor(this.event, decision, this.#decider?.rule, this.#failure !== undefined);
    }
    return { decision, findings: this.#findings, event: this.#rewritten, failures: this.#failures };
  }

  /** Rules that come before the one that decided: had one of them matched, it would have. */
  #candidates(all?: readonly CompiledRule[]): readonly CompiledRule[] {
    return all?.slice(0, this.#decider?.order) ?? this.#passed;
  }

  #decision(): Decision {
    const decider = this.#decider;
    const { event_id } = this.event.common;
    const rewrites = this.#rewrites;
    const evaluated = this.#evaluated;
    if (!decider) {
      const rule = { id: "none", layer: "none" as const, name: "no rule matched" };
      return { decision: "block", evaluated, event_id, matched_fields: [], near_misses: [], rewrites, rule };
    }
    const { id, name, layer, file, line, reason, action } = decider.rule;
    const said = this.#failure ?? reason;
    // In the order of canonical JSON, which then has nothing to sort.
    return {
      decision: this.#failure === undefined ? action as Decision["decision"] : "block",
      evaluated,
      event_id,
      matched_fields: matchedFields(this.event, decider.paths),
      near_misses: [],
      rewrites,
      rule: {
        ...(file !== undefined && { file }),
        id,
        layer,
        ...(line !== undefined && { line }),
        name,
        ...(said !== undefined && { reason: said }),
      },
    };
  }
}

function run(program: Program, flat: FlatEvent): unknown {
  resetCost();
  return program(flat);
}

/** Most broken rules that one error names. */
const PROBLEMS_SHOWN = 10;

/**
 * Compiles rules of every layer, and the built-in defaults, into one policy.
 *
 * @throws SbxError `policy.invalid` naming every rule that is wrong, up to ten, with file and line
 */
export function compilePolicy(rules: readonly Rule[]): Policy {
  if (rules.length > RULES_MAX) {
    throw new SbxError(
      "policy.invalid",
      `the policy has ${rules.length} rules; at most ${RULES_MAX} are possible`,
    );
  }
  const replaced = new Set(rules.filter(({ layer }) => layer === "default").map(({ id }) => id));
  const problems: string[] = [];
  const seen = new Map<string, Rule>();
  const compiled: CompiledRule[] = [];
  for (const rule of [...rules, ...DEFAULT_RULES.filter(({ id }) => !replaced.has(id))]) {
    const key = `${LAYERS.indexOf(rule.layer)} ${rule.id}`;
    const twin = seen.get(key);
    if (twin) {
      problems.push(`${ruleLabel(rule)} is defined twice: first at ${twin.file ?? "?"}:${twin.line ?? "?"}`);
    }
    seen.set(key, rule);
    try {
      compiled.push(compileRule(rule));
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      problems.push(error.message);
    }
  }
  if (problems.length) {
    const more = problems.length - PROBLEMS_SHOWN;
    throw new SbxError(
      "policy.invalid",
      problems.slice(0, PROBLEMS_SHOWN).join("\n") + (more > 0 ? `\n… and ${more} more` : ""),
      { hint: "sbx-admin policy check FILE checks rules before they are used" },
    );
  }
  return new Policy(compiled);
}
