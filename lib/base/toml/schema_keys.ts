import { z } from "zod";

/** Keys accepted by `schema` at `path`, for "did you mean"; empty where any key is accepted. */
export function schemaKeysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const here = path.reduce<z.core.$ZodType[]>(
    (schemas, segment) => schemas.flatMap((inner) => memberOf(inner, String(segment))).flatMap(unwrap),
    unwrap(schema),
  );
  return [...new Set(here.flatMap((inner) => inner instanceof z.ZodObject ? Object.keys(inner.shape) : []))];
}

/** Schema of one member; empty for an unknown one. */
function memberOf(schema: z.core.$ZodType, segment: string): z.core.$ZodType[] {
  if (schema instanceof z.ZodObject) {
    return Object.hasOwn(schema.shape, segment) ? [schema.shape[segment]] : [];
  }
  if (schema instanceof z.ZodRecord) return [schema.valueType];
  return schema instanceof z.ZodArray ? [schema.element] : [];
}

/** Schemas inside optional, default, transform and union wrappers. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return unwrap(schema.def.innerType);
  }
  if (schema instanceof z.ZodPipe) return unwrap(schema.def.in);
  return schema instanceof z.ZodUnion ? schema.def.options.flatMap(unwrap) : [schema];
}
