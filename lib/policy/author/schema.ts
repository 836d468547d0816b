/** Rules as they are written in TOML (contracts.md §5), as zod. */
import { z } from "zod";
import {
  ACTIONS,
  DETECTION_LEVELS,
  type Layer,
  MATCH_MAX,
  PRIORITY_MAX,
  PRIORITY_MIN,
} from "../engine/rule.ts";

/** Ids are names of tables, of files in no way. */
export const RULE_ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

export const RewriteSchema = z.strictObject({
  op: z.enum(["set", "strip_header", "replace"]),
  path: z.string().min(1),
  value: z.union([z.string(), z.number(), z.boolean()]).optional(),
  pattern: z.string().optional(),
});

/** One rule's table; `priority` and defaults that hang on the layer are put in when it is read. */
export const RuleSchema = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  action: z.enum(ACTIONS),
  match: z.string().min(1).max(MATCH_MAX),
  enabled: z.boolean().default(true),
  priority: z.int().min(PRIORITY_MIN).max(PRIORITY_MAX).optional(),
  detection_level: z.enum(DETECTION_LEVELS).optional(),
  reason: z.string().max(1000).optional(),
  rewrite: z.array(RewriteSchema).max(100).optional(),
});
export type RuleTable = z.infer<typeof RuleSchema>;

const Rules = z.record(z.string().regex(RULE_ID, "a rule id has letters, digits, _ . and -"), RuleSchema);

/** Rules by id, of one layer, with the priorities that the layer may use. */
export function rulesSchema(layer: Layer) {
  return Rules.superRefine((rules, context) => {
    for (const [id, { priority }] of Object.entries(rules)) {
      const wrong = priority === undefined ? undefined : wrongPriority(layer, priority);
      if (wrong) context.addIssue({ code: "custom", path: [id, "priority"], message: wrong });
    }
  });
}

/** Why a layer may not use a priority. */
export function wrongPriority(layer: Layer, priority: number): string | undefined {
  if (layer === "corp" && priority > -10) return "a corp rule's priority is -10 or lower";
  if (layer === "profile" && priority < 10) return "a profile rule's priority is 10 or higher";
}

/** A file of rules: `[corp.rules.<id>]`, `[profiles.rules.<id>]`, `[default.<id>]`. */
export const RuleFileSchema = z.strictObject({
  corp: z.strictObject({ rules: rulesSchema("corp") }).optional(),
  profiles: z.strictObject({ rules: rulesSchema("profile") }).optional(),
  default: rulesSchema("default").optional(),
});
