/** Unsaved rules: the linter's findings, their effects, and rules suggested by asks. */
import { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { RuleEffect } from "../../lab/mod.ts";
import type { Lint, RuleDraft } from "../../policy/author/mod.ts";
import type { AskInbox } from "./asks.ts";
import { eventsOf, explainEvent, type LedgerFinder } from "../record/ledger.ts";
import type { Rules } from "./rules.ts";

export interface TriedDraft {
  /** about the draft, and about rules for which it is the reason */
  lints: Lint[];
  /** absent without a ledger, or for a draft that cannot be saved */
  effect?: RuleEffect;
}

/**
 * Tries an unsaved rule of a profile: its remarks, and the events of a session that it decides in another way than the
 * rules of now.
 *
 * @param limit most events that are listed
 * @throws {SbxError} `profile.not_found`; `policy.invalid`: other rules do not compile
 */
export async function tryDraft(
  rules: Rules,
  profileId: string,
  draft: RuleDraft,
  { ledger, limit, signal }: { ledger?: string; limit: number; signal?: AbortSignal },
): Promise<TriedDraft> {
  const { draftProblem } = await import("../../policy/author/mod.ts");
  const problem = draftProblem(draft);
  if (problem) return { lints: [problem] };
  const [before, after] = await Promise.all([
    rules.policyOf(profileId),
    rules.policyWith(profileId, draft),
  ]);
  const lints = (await rules.lint(after)).filter(({ rule_id, layer, other_rule_id }) =>
    rule_id === draft.rule_id && layer === "profile" || other_rule_id === draft.rule_id
  );
  if (ledger === undefined) return { lints };
  const { effectOf } = await import("../../lab/mod.ts");
  return { lints, effect: await effectOf(before, after, eventsOf(ledger), { limit, signal }) };
}

/**
 * The rule by which events like that of a pending ask pass without a question.
 *
 * @throws {SbxError} `ask.not_found`; `event.not_found`: it is not recorded yet; `policy.blocked`, `ask.invalid`
 */
export async function ruleOfAsk(
  askId: string,
  { asks, rules, findLedger }: { asks: AskInbox; rules: Rules; findLedger: LedgerFinder },
): Promise<RuleDraft & { profile_id: string; replaces: boolean }> {
  const { session_id, event_id } = await asks.get(askId);
  const { event, decision } = await explainEvent(await findLedger(session_id), event_id);
  const { profile_id } = event.common;
  const policy = await rules.policyOf(profile_id);
  // A request that a program asks access for was not sent, and has no decision.
  const { id, layer } = (decision ?? policy.evaluate(withoutEnd(event)).decision).rule;
  const asking = policy.rules.find(({ rule }) => rule.id === id && rule.layer === layer);
  if (!asking) {
    throw new SbxError("policy.rule.not_found", `the rule "${id}" is not in force any more`, {
      hint: "answer the ask; the next one is by another rule",
    });
  }
  const { savedRule } = await import("../../policy/author/mod.ts");
  const saved = savedRule(event, asking.rule);
  return { profile_id, rule_id: saved.id, rule: saved.rule, replaces: saved.id === asking.rule.id };
}

function withoutEnd(event: Event): Event {
  const { outcome: _, decision: __, rule_id: ___, ...rest } = event as Event & Record<string, unknown>;
  return rest as Event;
}
