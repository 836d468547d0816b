/** Zod schemas of the detection IR, to validate IR from outside; `ir.ts` has the types. */
import { z } from "zod";
import { catalogue, type CatalogueField, EVENT_FAMILIES } from "../../event/mod.ts";
import { checkField } from "../field.ts";
import { PACK_ID, RULES_MAX, TagsSchema } from "../pack/schema.ts";
import {
  CONFIDENCES,
  IR_SCHEMA,
  OWNERS,
  PACK_STATUSES,
  SEVERITIES,
  TAGS_MAX,
  TITLE_MAX,
  UUID,
  VALUE_MAX,
  VALUES_MAX,
} from "./ir.ts";

/** Long enough for a source id, a dot and a slug; also the name of an overlay's file. */
export const RULE_ID = /^[a-z0-9][a-z0-9_.-]{2,199}$/;

export const IrMatcherSchema = z.strictObject({
  field_path: z.string().min(1).describe("of the rule's family, or common"),
  operator: z.literal("equals_any"),
  values: z.array(z.union([z.string().max(VALUE_MAX), z.number(), z.boolean()])).min(1).max(VALUES_MAX),
  sigma_field: z.string().min(1),
});

export const IrRuleSchema = z.strictObject({
  id: z.string().regex(
    RULE_ID,
    "must be a rule id: [a-z0-9_.-], 3 to 200 characters, a letter or digit first",
  ),
  source_id: z.string().min(1),
  sigma_id: z.string().regex(UUID, "must be a UUID").optional(),
  title: z.string().min(1).max(TITLE_MAX),
  event_family: z.enum(EVENT_FAMILIES),
  condition: z.string().min(1).describe("name of the selection"),
  matchers: z.array(IrMatcherSchema).min(1),
  severity: z.enum(SEVERITIES),
  confidence: z.enum(CONFIDENCES),
  // Tags of the pack and of the rule.
  tags: z.array(TagsSchema.element).max(2 * TAGS_MAX),
}).superRefine(({ event_family, matchers }, context) => {
  matchers.forEach(({ field_path, values }, at) => {
    const fault = checkField(event_family, field_path);
    const path = ["matchers", at];
    if (fault) return context.addIssue({ code: "custom", path: [...path, "field_path"], message: fault });
    const { type } = catalogue.get(field_path)!;
    values.forEach((value, index) => {
      const valueType = typeof value;
      if (JS_TYPE[type] === valueType) return;
      context.addIssue({
        code: "custom",
        path: [...path, "values", index],
        message: `must be a ${type}, the type of ${field_path}`,
      });
    });
  });
});

const JS_TYPE: Partial<Record<CatalogueField["type"], string>> = {
  string: "string",
  number: "number",
  bool: "boolean",
};

export const IrSchema = z.strictObject({
  schema: z.literal(IR_SCHEMA),
  pack_id: z.string().regex(PACK_ID, "must be a pack id"),
  pack_version: z.string().min(1).max(128),
  pack_status: z.enum(PACK_STATUSES),
  owner: z.enum(OWNERS),
  rules: z.array(IrRuleSchema).max(RULES_MAX),
}).superRefine(({ rules }, context) => {
  const seen = new Set<string>();
  rules.forEach(({ id }, at) => {
    if (seen.has(id)) {
      context.addIssue({ code: "custom", path: ["rules", at, "id"], message: `duplicate rule id "${id}"` });
    }
    seen.add(id);
  });
});
