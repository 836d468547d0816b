/** Routes of a session's ledger (contracts.md §2, §12). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, VmParam } from "./common.ts";

export const EventsResult = z.object({
  events: z.array(z.record(z.string(), z.unknown())),
  next_cursor: z.string().optional().describe("pass it as ?cursor= for what comes after; absent at the end"),
}).openapi("Events");
export type EventsResult = z.infer<typeof EventsResult>;

export const EventsQuery = z.object({
  cursor: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  family: z.enum(["http", "dns", "mcp", "model", "file", "process"]).optional(),
});

export const sessionRoutes = {
  events: createRoute({
    method: "get",
    path: "/sessions/{id}/events",
    tags: ["session"],
    request: { params: VmParam, query: EventsQuery },
    responses: answers("normalized events, oldest first", EventsResult),
  }),
};
