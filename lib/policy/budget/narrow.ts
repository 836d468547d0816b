import type { BudgetTerms, VmBudget } from "./schema.ts";

/** Answers to a full budget and to uncounted requests, the strictest first. */
const ON_LIMIT = ["block", "ask"] as const;
const UNCOUNTED = ["block", "ask", "allow"] as const;

/**
 * Limits of a profile and of a VM's own request together: of each the lower one, and the stricter
 * answer. A request can only take away.
 */
export function narrowBudget(
  profile: BudgetTerms | undefined,
  own: VmBudget | undefined,
): BudgetTerms | undefined {
  if (!own) return profile;
  const { on_limit = "ask", uncounted = "block", ...limits } = own;
  const joined: BudgetTerms = { ...profile, ...limits, on_limit, uncounted };
  if (!profile) return joined;
  for (const key of Object.keys(limits) as (keyof typeof limits)[]) {
    joined[key] = Math.min(limits[key] ?? Infinity, profile[key] ?? Infinity);
  }
  joined.on_limit = ON_LIMIT.find((each) => each === on_limit || each === profile.on_limit)!;
  joined.uncounted = UNCOUNTED.find((each) => each === uncounted || each === profile.uncounted)!;
  return joined;
}
