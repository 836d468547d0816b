/** Schemas of detections for the HTTP API; loads neither the compiler nor a parser. */
export { IrRuleSchema, IrSchema } from "./ir/schema.ts";
export { CompiledSchema } from "./compiled_schema.ts";
export {
  OFF_REASON_MAX,
  OffIdsSchema,
  RULE_ID_MAX,
  RuleSourceSchema,
  SigmaInputSchema,
} from "./active/schema.ts";
export { EVIDENCE_ROWS, EVIDENCE_ROWS_MAX } from "./replay/limit.ts";
