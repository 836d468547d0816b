/**
 * Normalized security event, schema_version 1 (docs/design/contracts/05-policy.md §5): the source of the
 * types, the field catalogue and the JSON Schema. Importing this file loads zod; `mod.ts` does not.
 */
import { z } from "zod";
import { Common } from "./common.ts";
import { EVENT_FAMILIES } from "./family_name.ts";
import { Credential, Dns, File, Http, Mcp, Model, Process } from "./family.ts";

const shape = {
  schema_version: z.literal(1),
  common: Common,
  http: Http.optional(),
  dns: Dns.optional(),
  mcp: Mcp.optional(),
  model: Model.optional(),
  file: File.optional(),
  process: Process.optional(),
  credential: Credential.optional(),
};

/** Complete event: all required fields, and only the object of its own family. */
export const EventSchema = z.strictObject(shape).superRefine((event, context) => {
  const eventFamily = event.common.event_type.split(".")[0];
  for (const family of EVENT_FAMILIES) {
    const isPresent = event[family] !== undefined;
    if (isPresent === (family === eventFamily)) continue;
    const message = isPresent ? `not allowed in a ${event.common.event_type} event` : "is missing";
    context.addIssue({ code: "custom", path: [family], message });
  }
});

export type Event = z.infer<typeof EventSchema>;

/** Partial event with at least its type. */
export type PolicyContext =
  & { schema_version: 1; common: Pick<Event["common"], "event_type"> & DeepPartial<Event["common"]> }
  & DeepPartial<Omit<Event, "common" | "schema_version">>;

/**
 * Partial event for rule tests and detection fixtures: only `common.event_type` is required. Unknown fields are still
 * rejected.
 */
export const PolicyContextSchema = z.strictObject({
  ...(makePartial(z.strictObject(shape)) as z.ZodObject).shape,
  schema_version: z.literal(1).default(1),
  common: (makePartial(Common) as z.ZodObject).extend({ event_type: Common.shape.event_type }),
}) as unknown as z.ZodType<PolicyContext>;

type DeepPartial<T> = T extends readonly unknown[] ? T
  : T extends object ? { [K in keyof T]?: DeepPartial<T[K]> }
  : T;

/** Makes every field optional, at any depth. */
function makePartial(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional) return makePartial(schema.unwrap());
  if (!(schema instanceof z.ZodObject)) return schema;
  return z.strictObject(
    Object.fromEntries(
      Object.entries(schema.shape).map((
        [key, field],
      ) => [key, z.optional(makePartial(field as z.core.$ZodType))]),
    ),
  );
}
