/**
 * The normalized security event, schema_version 1 (contracts.md §5): the one definition that types, field
 * catalogue and JSON Schema come from. Importing this file loads zod; `mod.ts` does not.
 */
import { z } from "zod";
import { Common } from "./common.ts";
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

/** A complete event: everything that is not marked optional is there, and of the families' objects just its own. */
export const EventSchema = z.strictObject(shape).superRefine((event, context) => {
  const own = event.common.event_type.split(".")[0];
  for (const family of ["http", "dns", "mcp", "model", "file", "process", "credential"] as const) {
    const there = event[family] !== undefined;
    if (there === (family === own)) continue;
    const message = there ? `a ${event.common.event_type} event has no ${family}` : `${own} is missing`;
    context.addIssue({ code: "custom", path: [family], message });
  }
});

export type Event = z.infer<typeof EventSchema>;

/** Any part of an event, with at least its type. */
export type PolicyContext =
  & { schema_version: 1; common: Pick<Event["common"], "event_type"> & DeepPartial<Event["common"]> }
  & DeepPartial<Omit<Event, "common" | "schema_version">>;

/**
 * An event as people write it, in rule tests and detection fixtures: only `common.event_type` has to be there.
 * Unknown fields are refused all the same.
 */
export const PolicyContextSchema = z.strictObject({
  ...(partial(z.strictObject(shape)) as z.ZodObject).shape,
  schema_version: z.literal(1).default(1),
  common: (partial(Common) as z.ZodObject).extend({ event_type: Common.shape.event_type }),
}) as unknown as z.ZodType<PolicyContext>;

type DeepPartial<T> = T extends readonly unknown[] ? T
  : T extends object ? { [K in keyof T]?: DeepPartial<T[K]> }
  : T;

/** The same schema with every field of every object in it optional. */
function partial(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional) return partial(schema.unwrap());
  if (!(schema instanceof z.ZodObject)) return schema;
  return z.strictObject(
    Object.fromEntries(
      Object.entries(schema.shape).map((
        [key, field],
      ) => [key, z.optional(partial(field as z.core.$ZodType))]),
    ),
  );
}
