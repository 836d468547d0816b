/** A single detection as a request gives it: compiled already, or as Sigma with its mapping. */
import { z } from "zod";
import { compileOrThrow } from "../compile.ts";
import { type DetectionIr, IR_SCHEMA } from "../ir.ts";
import { IrRuleSchema } from "../ir_schema.ts";
import { packOf } from "../pack/pack.ts";
import { MappingSchema, PACK_MAX, PACK_SCHEMA, SOURCE_ID } from "../pack/schema.ts";

/** Pack of rules that are in no pack. */
export const RUNTIME_PACK = "runtime";

export const SigmaInputSchema = z.strictObject({
  id: z.string().regex(SOURCE_ID, "must be a rule id: [a-z0-9_.-], 3 to 128 characters"),
  sigma: z.string().min(1).max(PACK_MAX).describe("a Sigma rule as YAML"),
  field_mapping: MappingSchema,
});

export const RuleInputSchema = z.union([SigmaInputSchema, IrRuleSchema]);
export type RuleInput = z.output<typeof RuleInputSchema>;

/** The IR of one detection. @throws {SbxError} `detection.invalid` naming everything that is wrong */
export function irOfRule(input: RuleInput): Promise<DetectionIr> {
  const pack = { pack_id: RUNTIME_PACK, pack_version: "1", pack_status: "active", owner: "user" } as const;
  if (!("sigma" in input)) return Promise.resolve({ schema: IR_SCHEMA, ...pack, rules: [input] });
  const { id, sigma, field_mapping } = input;
  return compileOrThrow(packOf({
    schema: PACK_SCHEMA,
    id: RUNTIME_PACK,
    version: pack.pack_version,
    status: pack.pack_status,
    owner: pack.owner,
    field_mapping,
    sources: [{ id, type: "sigma", format: "yaml", content: sigma }],
  }));
}
