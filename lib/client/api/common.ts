import { z } from "@hono/zod-openapi";

/** Error body of every route (docs/design/contracts/02-http.md §2). */
export const ErrorSchema = z.object({
  error: z.string().describe("message for people"),
  code: z.string().describe("stable code for programs"),
  hint: z.string().optional().describe("suggested next step"),
}).openapi("Error");

/** Path parameter with a VM's id or name. */
export const VmParam = z.object({
  id: z.string().openapi({ param: { name: "id", in: "path" }, example: "demo" }),
});

/** Header by which a client sends a request again without a second effect. */
export const IDEMPOTENCY_KEY = "idempotency-key";

/** Headers of a request that makes VMs. */
export const KeyHeader = z.object({
  [IDEMPOTENCY_KEY]: z.string().min(1).max(64).optional().describe(
    "a repeated request with this key answers the VMs of the first one, as long as they are there",
  ),
});

/** Where an event of a detection's evidence, or of a fixture, comes from. */
export const EventRef = z.object({
  corpus: z.string(),
  session_id: z.string(),
  event_id: z.string(),
  sequence: z.int(),
  timestamp_unix_ms: z.int(),
});

/** Responses of a route: JSON on success, the error body otherwise. */
export function answers<S extends z.ZodType>(description: string, schema: S) {
  return {
    200: { description, content: { "application/json": { schema } } },
    default: { description: "error", content: { "application/json": { schema: ErrorSchema } } },
  } as const;
}

/** A JSON request body, optional when all its keys are. */
export function body<S extends z.ZodType>(schema: S) {
  return {
    body: { required: !schema.safeParse({}).success, content: { "application/json": { schema } } },
  } as const;
}
