/** Schemas of detections for the HTTP API; loads neither the compiler nor a parser. */
import { z } from "zod";
import { IrSchema } from "./ir/schema.ts";
import { PlanSchema } from "./rule/plan_schema.ts";

export { IrRuleSchema } from "./ir/schema.ts";
export { IrSchema };
export {
  OFF_REASON_MAX,
  OffIdsSchema,
  RULE_ID_MAX,
  RuleSourceSchema,
  SigmaInputSchema,
} from "./active/schema.ts";
export { EVIDENCE_ROWS, EVIDENCE_ROWS_MAX } from "./replay/limit.ts";

/** Detections in either compiled form. */
export const CompiledSchema = z.union([IrSchema, PlanSchema]);
