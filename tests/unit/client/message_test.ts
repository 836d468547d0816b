/** Messages about texts of the API that have a wrong form: words for people, never the pattern. */
import { assert, assertEquals } from "@std/assert";
import { z } from "zod";
import { describeIssue } from "../../../lib/base/toml/mod.ts";
import * as api from "../../../lib/client/api/mod.ts";
import { isPattern } from "../../helper/browser.ts";

/** Every text below a schema that has to match a pattern. */
function patternsIn(schema: z.core.$ZodType, seen = new Set<z.core.$ZodType>()): z.ZodString[] {
  if (seen.has(schema)) return [];
  seen.add(schema);
  const inner = (each: z.core.$ZodType | undefined) => each ? patternsIn(each, seen) : [];
  if (schema instanceof z.ZodString) {
    const isPatterned = schema.def.checks?.some(({ _zod: { def } }) =>
      def.check === "string_format" && (def as { format?: string }).format === "regex"
    );
    return isPatterned ? [schema] : [];
  }
  if (schema instanceof z.ZodObject) return Object.values(schema.shape).flatMap(inner);
  if (schema instanceof z.ZodArray) return inner(schema.element);
  if (schema instanceof z.ZodRecord) return [...inner(schema.keyType), ...inner(schema.valueType)];
  if (schema instanceof z.ZodUnion) return schema.def.options.flatMap(inner);
  if (schema instanceof z.ZodPipe) return [...inner(schema.def.in), ...inner(schema.def.out)];
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodNullable) {
    return inner(schema.def.innerType);
  }
  return [];
}

interface Request {
  params?: z.ZodType;
  query?: z.ZodType;
  body?: { content: Record<string, { schema?: z.ZodType }> };
}

Deno.test("no route says a pattern where a text has a wrong form", () => {
  const routes = Object.entries(api).filter(([name]) => name.endsWith("Routes"))
    .flatMap(([, group]) => Object.values(group as Record<string, { path: string; request?: Request }>));
  assert(routes.length > 100);
  let tried = 0;
  for (const { path, request = {} } of routes) {
    const { params, query, body } = request;
    const json = body?.content["application/json"]?.schema;
    for (const schema of [params, query, json]) {
      for (const text of schema ? patternsIn(schema) : []) {
        const { error } = text.safeParse("\u0001 /wrong/");
        const said = error?.issues.flatMap((issue) => describeIssue(issue, text)) ?? [];
        assertEquals(said.filter(({ message }) => isPattern(message)), [], path);
        tried += said.length;
      }
    }
  }
  assert(tried > 20, `${tried} texts`);
});

Deno.test("a limit that a value has to pass is said so, and one element is one", () => {
  const schema = z.object({
    seconds: z.number().positive(),
    share: z.number().lt(1),
    words: z.array(z.string()).min(1),
  });
  const { error } = schema.safeParse({ seconds: 0, share: 1, words: [] });
  assertEquals(error!.issues.flatMap((issue) => describeIssue(issue, schema)).map(({ message }) => message), [
    "must be more than 0",
    "must be less than 1",
    "must be at least 1 element",
  ]);
});
