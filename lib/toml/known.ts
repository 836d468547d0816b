import { z } from "zod";

/** The keys that `schema` takes at `path`, for "did you mean"; none where anything goes. */
export function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let here: z.core.$ZodType = unwrap(schema);
  for (const segment of path) {
    if (here instanceof z.ZodObject) here = here.shape[String(segment)];
    else if (here instanceof z.ZodRecord) here = here.valueType;
    else if (here instanceof z.ZodArray) here = here.element;
    else return [];
    if (!here) return [];
    here = unwrap(here);
  }
  return here instanceof z.ZodObject ? Object.keys(here.shape) : [];
}

/** The schema below optional, default and transforming wrappers. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  for (;;) {
    if (
      schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault
    ) {
      schema = schema.def.innerType;
    } else if (schema instanceof z.ZodPipe) schema = schema.def.in;
    else return schema;
  }
}
