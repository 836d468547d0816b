import { type EventRef, Evidence, type RuleMatch } from "../detection/replay/mod.ts";
import { compilePolicy, type Decision, isGuard, type Policy, type Rule, summary } from "../policy/mod.ts";
import type { LabEvent } from "./event.ts";
import type { DecisionChange, LabPolicy } from "./report.ts";

/** Maximum number of failures listed. */
const FAILURES_MAX = 20;

/** Compares candidate rules with recorded decisions or with baseline rules. */
export class PolicyTrial {
  readonly #candidate: Policy;
  readonly #baseline?: Policy;
  readonly #blocked: Evidence;
  readonly #released: Evidence;
  readonly #changes = new Map<string, DecisionChange>();
  readonly #failures: LabPolicy["failures"] = [];
  #decided = 0;
  #guarded = 0;

  /** @throws {SbxError} `policy.invalid` */
  constructor(rules: readonly Rule[], baseline: readonly Rule[] | undefined, limit: number) {
    this.#candidate = compilePolicy(rules);
    this.#baseline = baseline && compilePolicy(baseline);
    this.#blocked = new Evidence(limit);
    this.#released = new Evidence(limit);
  }

  run(event: LabEvent, ref: EventRef): void {
    // Code refused it before any rule was asked, and would again.
    if (event.rule_id !== undefined && isGuard(event.rule_id)) return void this.#guarded++;
    const from = this.#baselineDecision(event);
    if (from === undefined) return;
    this.#decided++;
    const { decision, failures } = this.#candidate.evaluate(event);
    this.#failures.push(...failures.slice(0, FAILURES_MAX - this.#failures.length));
    const to = decision.decision;
    if (from === to) return;
    const change = this.#changes.get(`${from} ${to}`) ?? { from, to, count: 0 };
    this.#changes.set(`${from} ${to}`, { ...change, count: change.count + 1 });
    if (from === "allow") this.#blocked.add(event, ref, [ruleMatchOf(decision)]);
    else if (to === "allow") this.#released.add(event, ref, [ruleMatchOf(decision)]);
  }

  /** Baseline decision of an event; `undefined` for observe-only events, which no rule can block. */
  #baselineDecision(event: LabEvent): string | undefined {
    if (event.common.enforceability !== "inline_blockable") return undefined;
    return this.#baseline ? this.#baseline.evaluate(event).decision.decision : event.decision;
  }

  report(): LabPolicy {
    return {
      decided: this.#decided,
      guarded: this.#guarded,
      changes: [...this.#changes.values()].sort((a, b) => b.count - a.count),
      blocked: this.#blocked.report(),
      released: this.#released.report(),
      failures: this.#failures,
    };
  }
}

function ruleMatchOf(decision: Decision): RuleMatch {
  const { rule, matched_fields } = decision;
  return {
    rule_id: rule.id,
    pack_id: `policy.${rule.layer}`,
    matched_fields,
    outcome: { outcome: "matched", message: summary(decision) },
  };
}
