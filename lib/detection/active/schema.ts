/**
 * Zod schema of a single detection in a request. Loads no compiler and no parser,
 * because the gateway uses it too.
 */
import { z } from "zod";
import { IrRuleSchema } from "../ir/schema.ts";
import { MappingSchema, PACK_MAX, SOURCE_ID } from "../pack/schema.ts";

/** Most rules that are switched off in a home. */
export const OFF_MAX = 1000;
/** Most characters of the reason why one is. */
export const OFF_REASON_MAX = 1000;
/** Most characters of a rule's id in a list of them. */
export const RULE_ID_MAX = 256;

/** Ids of the rules that a person switched off. */
export const OffIdsSchema = z.array(z.string().min(1).max(RULE_ID_MAX)).max(OFF_MAX);

export const SigmaInputSchema = z.strictObject({
  id: z.string().regex(SOURCE_ID, "must be a rule id: [a-z0-9_.-], 3 to 128 characters"),
  sigma: z.string().min(1).max(PACK_MAX).describe("a Sigma rule as YAML"),
  field_mapping: MappingSchema,
});

/** Maximum characters of all files of one request. */
const SOURCE_MAX = PACK_MAX;

/** Sigma rules of files, with the values of their placeholders. */
export const RuleSourceSchema = z.strictObject({
  id: z.string().regex(SOURCE_ID, "must be an id: [a-z0-9_.-], 3 to 128 characters").describe(
    "pack id of their findings",
  ),
  files: z.array(z.strictObject({
    path: z.string().min(1).max(4096).describe("for messages; no file is read"),
    text: z.string().max(PACK_MAX).describe("YAML, one rule or more"),
  })).min(1).max(20_000).refine(
    (files) => files.reduce((sum, { text }) => sum + text.length, 0) <= SOURCE_MAX,
    `must have at most ${SOURCE_MAX} characters in total`,
  ),
  placeholders: z.record(
    z.string().regex(/^\w+$/),
    z.array(z.union([z.string().max(8192), z.number()])).min(1).max(10_000),
  ).optional().describe("values by the name of each placeholder"),
});

export const RuleInputSchema = z.union([SigmaInputSchema, IrRuleSchema]);
export type RuleInput = z.output<typeof RuleInputSchema>;
