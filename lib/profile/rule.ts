/** The shape of a security rule in a profile, a corp or a rule file (contracts.md §5). Its CEL is the policy engine's. */
import { z } from "zod";

/** Lowest and highest priority of a rule; the lower one is asked first (contracts.md §5). */
export const PRIORITY_MIN = -1000;
export const PRIORITY_MAX = 1000;

const rewrite = z.strictObject({
  op: z.enum(["set", "strip_header", "replace"]),
  path: z.string().min(1),
  value: z.string().optional(),
  pattern: z.string().optional(),
});

/** One rule; whose layer it is decides which priorities are legal. */
const ruleTable = (min: number, max: number) =>
  z.strictObject({
    name: z.string().min(1).max(128),
    action: z.enum(["allow", "ask", "block", "rewrite"]),
    match: z.string().min(1).max(16 * 1024),
    enabled: z.boolean().optional(),
    priority: z.int().min(min).max(max).optional(),
    detection_level: z.enum(["informational", "low", "medium", "high", "critical"]).optional(),
    reason: z.string().max(1024).optional(),
    rewrite: z.array(rewrite).optional(),
  });

const ruleId = z.string().regex(/^[a-z0-9][a-z0-9_.-]{0,127}$/, "a rule id is 1 to 128 of a-z 0-9 _ . -");

/** `[profiles.rules.<id>]`: priority 10 at the lowest. */
export const RuleTables = z.record(ruleId, ruleTable(10, PRIORITY_MAX));
/** `[corp.rules.<id>]`: priority −10 at the highest. */
export const CorpRuleTables = z.record(ruleId, ruleTable(PRIORITY_MIN, -10));
export type RuleTables = z.output<typeof RuleTables>;
