/**
 * Schema of `[budget]` in profile.toml and corp.toml (docs/design/contracts/04-profiles.md §4, "Budgets").
 */
import { z } from "zod";

const whole = z.int().positive().max(Number.MAX_SAFE_INTEGER);
const dollars = z.number().positive().max(1_000_000);

export const BudgetTerms = z.strictObject({
  usd: dollars.optional(),
  tokens: whole.optional(),
  requests: whole.optional(),
  bytes_out: whole.optional(),
  minutes: z.number().positive().max(525_600).optional(),
  per_day_usd: dollars.optional(),
  per_day_tokens: whole.optional(),
  per_day_requests: whole.optional(),
  per_day_bytes_out: whole.optional(),
  per_day_minutes: z.number().positive().max(1440).optional(),
  on_limit: z.enum(["ask", "block"]).default("ask"),
  uncounted: z.enum(["block", "ask", "allow"]).default("block"),
});
export type BudgetTerms = z.output<typeof BudgetTerms>;

const {
  per_day_usd: _usd,
  per_day_tokens: _tokens,
  per_day_requests: _requests,
  per_day_bytes_out: _bytes,
  per_day_minutes: _minutes,
  on_limit,
  uncounted,
  ...ofSession
} = BudgetTerms.shape;

/** Limits that a request gives one VM: of its session, and none of the day, which its profile's VMs share. */
export const VmBudget = z.strictObject({
  ...ofSession,
  on_limit: on_limit.unwrap().optional().describe("default ask"),
  uncounted: uncounted.unwrap().optional().describe("default block"),
});
export type VmBudget = z.output<typeof VmBudget>;

/** How far a limit is used up. */
export const BudgetUse = z.strictObject({
  layer: z.enum(["corp", "profile"]).describe("profile: also limits that the VM was made with"),
  limit: z.string().describe("key of [budget]"),
  used: z.number(),
  max: z.number(),
  on_limit: BudgetTerms.shape.on_limit.unwrap(),
});
export type BudgetUse = z.infer<typeof BudgetUse>;
