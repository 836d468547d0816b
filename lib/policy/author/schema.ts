/** Rules in TOML (docs/design/contracts/05-policy.md §5), as zod. */
import { z } from "zod";
import { ASK_TIMEOUT_MAX } from "../ask/limit.ts";
import { AnsweredBy } from "../ask/schema.ts";
import {
  ACTIONS,
  DETECTION_LEVELS,
  type Layer,
  LAYERS,
  MATCH_MAX,
  NARROWING_ID_MAX,
  NARROWING_MAX,
  PRIORITY_MAX,
  PRIORITY_MIN,
  PROTOCOLS,
} from "../engine/rule_term.ts";

/** Valid rule ids, which are TOML table names and never file names. The ids of guards are reserved. */
export const RULE_ID = /^(?!guard-)[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
export const RULE_ID_WORDS = "rule ids may contain letters, digits, _ . and -, and do not begin with guard-";

/** One change that a rewrite rule makes. */
export const RewriteSchema = z.strictObject({
  op: z.enum(["set", "strip_header", "replace"]),
  /** a field, or for strip_header the header's field or its bare name */
  path: z.string().min(1),
  /** the new value, or the replacement of a match (`$1` is the first group) */
  value: z.union([z.string(), z.number(), z.boolean()]).optional(),
  /** RE2, for replace */
  pattern: z.string().optional(),
});
export type RewriteOp = z.infer<typeof RewriteSchema>;

/** One rule's table; the id, and defaults that depend on the layer, are added when the table is read. */
export const RuleSchema = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  action: z.enum(ACTIONS),
  /** CEL over the event's paths */
  match: z.string().min(1).max(MATCH_MAX),
  enabled: z.boolean().default(true),
  priority: z.int().min(PRIORITY_MIN).max(PRIORITY_MAX).optional(),
  detection_level: z.enum(DETECTION_LEVELS).optional(),
  reason: z.string().max(1000).optional(),
  /** `s` that an ask of this rule waits; with action ask only */
  ask_timeout: z.int().min(1).max(ASK_TIMEOUT_MAX).optional(),
  /** protocol that an allowed connection is held to; with action allow or ask only */
  protocol: z.enum(PROTOCOLS).optional(),
  rewrite: z.array(RewriteSchema).max(100).optional(),
});
export type RuleTable = z.infer<typeof RuleSchema>;

const recorded = {
  change_id: z.string(),
  at: z.iso.datetime(),
  what: z.enum(["create", "edit", "enable", "disable", "delete"]),
  by: AnsweredBy.describe("client profile.toml: the file was edited"),
  undoes: z.string().optional().describe("id of the change that this one takes back"),
};

/** One recorded change of a rule of a profile (docs/design/contracts/05-policy.md §5, "Changes of rules"). */
export const RuleChange = z.strictObject({
  kind: z.literal("rule"),
  ...recorded,
  profile_id: z.string(),
  rule_id: z.string(),
  before: RuleSchema.optional().describe("absent: there was no rule of this id"),
  after: RuleSchema.optional().describe("absent: the rule is gone"),
});
export type RuleChange = z.infer<typeof RuleChange>;

/** An overlay as it was put in, or a rule of a pack as it was switched. */
const RecordedOverlay = z.strictObject({
  definition: z.unknown(),
  enabled: z.boolean(),
  reason: z.string().optional().describe("why it was switched off"),
});
export type RecordedOverlay = z.infer<typeof RecordedOverlay>;

/** One recorded change of a detection that was put in at run time, or of the switch of a pack's rule. */
export const DetectionChange = z.strictObject({
  kind: z.literal("detection"),
  ...recorded,
  detection_id: z.string(),
  pack_id: z.string().optional().describe("pack of a rule that was switched; absent for an overlay"),
  before: RecordedOverlay.optional().describe("absent: there was no overlay of this id"),
  after: RecordedOverlay.optional().describe("absent: the overlay is gone"),
});
export type DetectionChange = z.infer<typeof DetectionChange>;

export const RecordedChange = z.discriminatedUnion("kind", [RuleChange, DetectionChange]);
export type RecordedChange = z.infer<typeof RecordedChange>;

/** One rule with its defaults and its place: the form that the engine takes. */
export const FullRuleSchema = z.strictObject({
  ...RuleSchema.shape,
  enabled: z.boolean(),
  id: z.string(),
  layer: z.enum(LAYERS),
  /** of a project file: a block, or an ask that holds where another rule allows the event */
  narrows: z.literal(true).optional(),
  name: z.string(),
  priority: z.int(),
  file: z.string().optional(),
  /** of its table, from 1 */
  line: z.int().optional(),
  /** of its match expression */
  match_line: z.int().optional(),
});
export type Rule = z.infer<typeof FullRuleSchema>;

/** Most characters of a match in a project file (docs/design/contracts/14-limits.md §14). */
const NARROWING_MATCH_MAX = 2048;

/** One rule of a project file, which comes with a repository: it can only take away. */
export const NarrowingRule = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  action: z.enum(["block", "ask"]),
  match: z.string().min(1).max(NARROWING_MATCH_MAX),
  reason: z.string().max(1000).optional(),
});

/** Rules of a project file in order, as a VM is given them. */
export const NarrowingRules = z.array(z.strictObject({
  ...NarrowingRule.shape,
  id: z.string().regex(RULE_ID, RULE_ID_WORDS).max(NARROWING_ID_MAX),
  line: z.int().positive().optional().describe("line of its table in the file"),
})).max(NARROWING_MAX);
export type NarrowingRules = z.infer<typeof NarrowingRules>;

const Rules = z.record(
  z.string().regex(RULE_ID, RULE_ID_WORDS),
  RuleSchema,
);

/** Builds the schema of one layer's rules by id, with the priorities allowed for the layer. */
export function rulesSchema(layer: Layer) {
  return Rules.superRefine((rules, context) => {
    for (const [id, { priority }] of Object.entries(rules)) {
      const problem = priority === undefined ? undefined : priorityProblem(layer, priority);
      if (problem) context.addIssue({ code: "custom", path: [id, "priority"], message: problem });
    }
  });
}

/** Explains why a layer may not use a priority; `undefined` for an allowed one. */
export function priorityProblem(layer: Layer, priority: number): string | undefined {
  if (layer === "corp" && priority > -10) return "the priority of a corp rule must be -10 or lower";
  if (layer === "profile" && priority < 10) return "the priority of a profile rule must be 10 or higher";
}

/** Rule file: `[corp.rules.<id>]`, `[profiles.rules.<id>]`, `[default.<id>]`. */
export const RuleFileSchema = z.strictObject({
  corp: z.strictObject({ rules: rulesSchema("corp") }).optional(),
  profiles: z.strictObject({ rules: rulesSchema("profile") }).optional(),
  default: rulesSchema("default").optional(),
});
