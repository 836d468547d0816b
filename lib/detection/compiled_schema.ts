import { z } from "zod";
import { IrSchema } from "./ir/schema.ts";
import { PlanSchema } from "./rule/plan_schema.ts";

/** Zod schema of detections in either compiled form. */
export const CompiledSchema = z.union([IrSchema, PlanSchema]);
