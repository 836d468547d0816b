import { z } from "zod";

/** The keys that `schema` takes at `path`, for "did you mean"; none where anything goes. */
export function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const here = path.reduce<z.core.$ZodType[]>(
    (schemas, segment) => schemas.flatMap((inner) => step(inner, String(segment))).flatMap(forms),
    forms(schema),
  );
  return [...new Set(here.flatMap((inner) => inner instanceof z.ZodObject ? Object.keys(inner.shape) : []))];
}

/** What a schema expects at one of its members. */
function step(schema: z.core.$ZodType, segment: string): z.core.$ZodType[] {
  if (schema instanceof z.ZodObject) {
    return Object.hasOwn(schema.shape, segment) ? [schema.shape[segment]] : [];
  }
  if (schema instanceof z.ZodRecord) return [schema.valueType];
  return schema instanceof z.ZodArray ? [schema.element] : [];
}

/** The schemas below optional, default, transforming and "one of" wrappers. */
function forms(schema: z.core.$ZodType): z.core.$ZodType[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return forms(schema.def.innerType);
  }
  if (schema instanceof z.ZodPipe) return forms(schema.def.in);
  return schema instanceof z.ZodUnion ? schema.def.options.flatMap(forms) : [schema];
}
