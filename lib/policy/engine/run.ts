/** One pass over the rules, the core of `Policy.evaluate`. */
import type { Event, Finding } from "../../event/mod.ts";
import type { AppliedRewrite, Decision, Evaluation, RuleFailure } from "../decision/mod.ts";
import { resetCost } from "./cel.ts";
import { celMessage, type CompiledRule, type Program } from "./compile.ts";
import { FlatEvent } from "./field.ts";
import type { TypeIndex } from "./lookup.ts";
import { isPassedThrough, isWithin, type PassthroughGuard } from "./passthrough.ts";
import type { PrivateAddressGuard } from "./private.ts";
import type { Rewrite } from "./rewrite.ts";
import { ruleLabel } from "./rule.ts";
import type { Protocol } from "./rule_term.ts";
import { matchedFields, nearMisses, remedyFor } from "./why.ts";

/**
 * Rules that count in a pass: `restrictions` are blocks and asks, for a reading of the event that is not the one that
 * is sent.
 */
type Pass = "all" | "without-rewrites" | "restrictions";

/** One pass over the candidate rules of an event; complete once it is made. */
export class Run {
  readonly #flat: FlatEvent;
  /** rules run without a match before the deciding rule */
  readonly #unmatched: CompiledRule[] = [];
  readonly #rewrites: AppliedRewrite[] = [];
  /** rewrites of corp so far */
  readonly #corp: Rewrite[] = [];
  readonly #findings: Finding[] = [];
  readonly #failures: RuleFailure[] = [];
  #evaluated = 0;
  #decider?: CompiledRule;
  /** first ask that does not name a private address of the event: it holds where a later rule allows that address */
  #openAsk?: CompiledRule;
  /** reason of a decision by a rule that failed */
  #failure?: string;
  /** message of the last failure, without the rule's place, which is not for guests */
  #error = "";
  #rewritten: Event;
  /** protocol that the connection is held to */
  readonly #protocol?: Protocol;

  constructor(
    index: TypeIndex,
    readonly event: Event,
    readonly pass: Pass,
    readonly passthrough: PassthroughGuard,
    readonly privateAddresses: PrivateAddressGuard,
  ) {
    this.#flat = new FlatEvent(event);
    this.#rewritten = event;
    this.#evaluate(index.find(event), index.always);
    this.#protocol = this.#decider?.rule.protocol;
    if (this.#decider?.rule.action === "allow" && this.#openAsk) {
      // The allow opens the address, and holds the connection to its protocol.
      this.#protocol ??= this.#openAsk.rule.protocol;
      this.#decider = this.#openAsk;
    }
  }

  /** Place of the deciding rule in the order of evaluation. */
  get order(): number {
    return this.#decider?.order ?? Infinity;
  }

  /** Evaluates two ordered lists as one merged list. */
  #evaluate(hits: CompiledRule[], always: CompiledRule[]): void {
    let hit = 0;
    let other = 0;
    while (hit < hits.length || other < always.length) {
      const next = other >= always.length || (hit < hits.length && hits[hit].order < always[other].order)
        ? hits[hit++]
        : always[other++];
      if (!this.#decider && this.#counts(next)) this.#decide(next);
      // Findings do not depend on the decision.
      else if (next.rule.detection_level && this.#matches(next)) this.#addFinding(next);
    }
  }

  #counts({ rule: { action } }: CompiledRule): boolean {
    return this.pass !== "restrictions" || action === "block" || action === "ask";
  }

  #decide(next: CompiledRule): void {
    const failures = this.#failures.length;
    if (!this.#matches(next)) {
      if (this.#failures.length > failures) {
        this.#decider = next;
        this.#failure = `the rule failed on this event: ${this.#error}`;
      } else this.#unmatched.push(next);
      return;
    }
    if (next.rule.detection_level) this.#addFinding(next);
    const { action } = next.rule;
    if (action === "rewrite") this.#rewrite(next);
    else if (action === "block" || !this.privateAddresses.overlooks(next, this.event)) this.#decider = next;
    else if (action === "ask") this.#openAsk ??= next;
  }

  #matches({ program, rule }: CompiledRule): boolean {
    this.#evaluated++;
    try {
      const value = runProgram(program, this.#flat);
      if (typeof value === "boolean") return value;
      throw new Error("the result is not a bool on this event");
    } catch (error) {
      this.#error = celMessage(error);
      this.#failures.push({
        rule_id: rule.id,
        event_id: this.event.common.event_id,
        message: `${ruleLabel(rule)} failed: ${this.#error}`,
      });
      return false;
    }
  }

  #rewrite({ rule, rewrites }: CompiledRule): void {
    if (this.pass !== "all") return;
    const isCorp = this.passthrough.isCorp(rule);
    for (const { op, path, apply } of rewrites) {
      const changed = apply(this.#rewritten);
      if (changed === this.#rewritten) continue;
      const passes = isPassedThrough(changed) && !isPassedThrough(this.#rewritten);
      if (passes && this.passthrough.blinded(rule, this.event)) continue;
      this.#rewritten = changed;
      this.#rewrites.push({ rule_id: rule.id, op, path });
      if (!isCorp) this.#rewriteForCorp(path);
    }
    if (isCorp) this.#corp.push(...rewrites);
  }

  /** Applies corp's rewrites of a field again that another rule has changed since. */
  #rewriteForCorp(changed: string): void {
    for (const { path, apply } of this.#corp) {
      if (isWithin(path, changed) || isWithin(changed, path)) this.#rewritten = apply(this.#rewritten);
    }
  }

  #addFinding({ rule }: CompiledRule): void {
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
    return {
      decision,
      decider: this.#decider?.rule,
      findings: this.#findings,
      event: this.#rewritten,
      failures: this.#failures,
    };
  }

  /** Rules before the deciding one: a match of any of them would have decided. */
  #candidates(all?: readonly CompiledRule[]): readonly CompiledRule[] {
    return all?.slice(0, this.#decider?.order) ?? this.#unmatched;
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
    const explanation = this.#failure ?? reason;
    // Keys in canonical JSON order, so that nothing needs sorting.
    return {
      decision: this.#failure === undefined ? action as Decision["decision"] : "block",
      evaluated,
      event_id,
      matched_fields: matchedFields(this.event, decider.paths),
      near_misses: [],
      ...(this.#protocol !== undefined && { protocol: this.#protocol }),
      rewrites,
      rule: {
        ...(file !== undefined && { file }),
        id,
        layer,
        ...(line !== undefined && { line }),
        name,
        ...(explanation !== undefined && { reason: explanation }),
      },
    };
  }
}

function runProgram(program: Program, flat: FlatEvent): unknown {
  resetCost();
  return program(flat);
}
