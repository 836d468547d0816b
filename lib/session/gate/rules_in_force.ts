import type { DetectionIr } from "../../detection/mod.ts";
import type { Finding } from "../../event/mod.ts";
import type { Evaluation, Policy } from "../../policy/mod.ts";
import { failureFinding, REFUSAL_RULES } from "./finding.ts";
import { reviewedFamilies } from "./response.ts";

/** The rules and detections of a session until the next change. */
export class RulesInForce {
  readonly policy: Policy;
  /** families of which some rule reads responses; the responses of others are not evaluated */
  readonly reviewed: ReturnType<typeof reviewedFamilies>;
  readonly #corpIds: ReadonlySet<string>;
  readonly #otherIds: ReadonlySet<string>;

  constructor(policy: Policy, detections: readonly DetectionIr[]) {
    this.policy = policy;
    this.reviewed = reviewedFamilies(policy);
    this.#corpIds = new Set(
      policy.rules.filter(({ rule }) => rule.layer === "corp").map(({ rule }) => rule.id),
    );
    this.#otherIds = new Set([
      ...REFUSAL_RULES,
      ...detections.flatMap(({ rules }) => rules.map(({ id }) => id)),
    ]);
  }

  /**
   * Findings of an evaluation: its rules' findings, and one for each rule that failed. Each has its own id: a
   * profile's rules may have the ids of corp's, and the record keeps the first finding with an id.
   */
  findingsOf({ findings, failures }: Evaluation): Finding[] {
    const all = failures.length ? [...findings, ...failures.map(failureFinding)] : findings;
    return all.some((finding) => this.#isTaken(finding))
      ? all.map((finding) =>
        this.#isTaken(finding)
          ? { ...finding, finding_id: `${finding.finding_id}:${finding.pack_id}` }
          : finding
      )
      : all;
  }

  #isTaken({ rule_id, pack_id }: Finding): boolean {
    return this.#otherIds.has(rule_id) || pack_id !== "policy.corp" && this.#corpIds.has(rule_id);
  }
}
