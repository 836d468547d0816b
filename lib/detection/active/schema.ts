/** Zod schema of a single detection in a request. Loads no compiler and no parser, because the gateway uses it too. */
import { z } from "zod";
import { IrRuleSchema } from "../ir/schema.ts";
import { MappingSchema, PACK_MAX, SOURCE_ID } from "../pack/schema.ts";

export const SigmaInputSchema = z.strictObject({
  id: z.string().regex(SOURCE_ID, "must be a rule id: [a-z0-9_.-], 3 to 128 characters"),
  sigma: z.string().min(1).max(PACK_MAX).describe("a Sigma rule as YAML"),
  field_mapping: MappingSchema,
});

export const RuleInputSchema = z.union([SigmaInputSchema, IrRuleSchema]);
export type RuleInput = z.output<typeof RuleInputSchema>;
