/**
 * What is generated from the event's zod definition: the field catalogue and the JSON Schemas.
 * `deno run -A lib/event/generate.ts` writes them.
 */
import { z } from "zod";
import type { CatalogueField } from "./catalogue.ts";
import { EventSchema, PolicyContextSchema } from "./schema.ts";

/** Every field of an event by path, in the order of the definition. */
export function fieldsOfSchema(): Record<string, CatalogueField> {
  const fields: Record<string, CatalogueField> = {};
  collect(EventSchema, "", fields);
  return fields;
}

/** Text of `lib/event/fields.ts`. */
export function fieldsModule(): string {
  const lines = Object.entries(fieldsOfSchema()).map(([path, field]) =>
    `  ${JSON.stringify(path)}: ${JSON.stringify(field)},\n`
  );
  return `// Generated from schema.ts by generate.ts; a test fails when it is stale.
import type { CatalogueField } from "./catalogue.ts";

// deno-fmt-ignore
export const FIELDS: Record<string, CatalogueField> = {
${lines.join("")}};
`;
}

/** JSON Schemas by file name under schemas/. */
export function eventJsonSchemas(): Record<string, unknown> {
  const schema = (title: string, from: z.ZodType) => ({ title, ...z.toJSONSchema(from, { io: "input" }) });
  return {
    "sbx.event.v1.schema.json": schema("sbx.event.v1", EventSchema),
    "sbx.policy-context.v1.schema.json": schema("sbx.policy-context.v1", PolicyContextSchema),
  };
}

function collect(schema: z.core.$ZodType, path: string, into: Record<string, CatalogueField>): void {
  const inner = schema instanceof z.ZodOptional ? schema.unwrap() : schema;
  if (inner instanceof z.ZodObject) {
    for (const [key, field] of Object.entries(inner.shape)) {
      collect(field as z.core.$ZodType, path ? `${path}.${key}` : key, into);
    }
    return;
  }
  const description = z.globalRegistry.get(schema)?.description ?? z.globalRegistry.get(inner)?.description;
  into[path] = {
    ...leaf(inner),
    ...(inner instanceof z.ZodEnum && { values: inner.options as string[] }),
    ...(description && { description }),
  };
}

function leaf(schema: z.core.$ZodType): Pick<CatalogueField, "type" | "cel"> {
  if (schema instanceof z.ZodArray) return { type: "list", cel: `list<${celType(schema.element)}>` };
  if (schema instanceof z.ZodRecord) return { type: "map", cel: `map<string, ${celType(schema.valueType)}>` };
  const cel = celType(schema);
  return { type: cel === "int" || cel === "double" ? "number" : cel === "bool" ? "bool" : "string", cel };
}

function celType(schema: z.core.$ZodType): string {
  if (schema instanceof z.ZodString || schema instanceof z.ZodEnum) return "string";
  if (schema instanceof z.ZodBoolean) return "bool";
  if (schema instanceof z.ZodLiteral) return typeof schema.value === "number" ? "int" : "string";
  if (schema instanceof z.ZodNumber) return schema.isInt ? "int" : "double";
  if (schema instanceof z.ZodArray) return `list<${celType(schema.element)}>`;
  return "dyn";
}

if (import.meta.main) {
  await Deno.writeTextFile(new URL("./fields.ts", import.meta.url), fieldsModule());
  for (const [name, schema] of Object.entries(eventJsonSchemas())) {
    await Deno.writeTextFile(
      new URL(`../../schemas/${name}`, import.meta.url),
      JSON.stringify(schema, null, 2) + "\n",
    );
  }
}
