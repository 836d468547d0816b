/**
 * The records of a VM: logs, events, programs (docs/design/contracts/02-http.md §2, "Virtual machines").
 */
import { z } from "@hono/zod-openapi";

export const LogsResult = z.object({
  logs: z.array(
    z.object({ name: z.string(), size_bytes: z.int(), truncated: z.boolean(), lines: z.array(z.string()) }),
  ),
}).openapi("Logs");
export type LogsResult = z.infer<typeof LogsResult>;

const nextCursor = z.string().optional().describe("?cursor= of the next page; absent at the end");
/** Page of a record. */
export const PageQuery = z.object({
  cursor: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(1000).optional().describe("default 1000"),
});

export const TimelineResult = z.object({
  events: z.array(z.record(z.string(), z.unknown())),
  next_cursor: nextCursor,
}).openapi("Timeline");
export type TimelineResult = z.infer<typeof TimelineResult>;

export const HistoryResult = z.object({
  executions: z.array(z.object({
    event_id: z.string(),
    timestamp_unix_ms: z.int(),
    command: z.string(),
    exit_code: z.int().nullable(),
    duration_ms: z.number().nullable(),
  })),
  next_cursor: nextCursor,
}).openapi("History");
export type HistoryResult = z.infer<typeof HistoryResult>;
