import { z } from "@hono/zod-openapi";

/** Error body of every route (contracts.md §2). */
export const ErrorSchema = z.object({
  error: z.string().describe("what happened, and what to do"),
  code: z.string().describe("stable code"),
  hint: z.string().optional(),
}).openapi("Error");

/** A VM's id or its name: routes take both. */
export const VmParam = z.object({
  id: z.string().openapi({ param: { name: "id", in: "path" }, example: "demo" }),
});

/** JSON answer with a description, beside the error answers that any route may give. */
export function answers<S extends z.ZodType>(description: string, schema: S) {
  return {
    200: { description, content: { "application/json": { schema } } },
    default: { description: "error", content: { "application/json": { schema: ErrorSchema } } },
  } as const;
}

/** A JSON request body; one whose keys are all optional may be left out. */
export function body<S extends z.ZodType>(schema: S) {
  return {
    body: { required: !schema.safeParse({}).success, content: { "application/json": { schema } } },
  } as const;
}
