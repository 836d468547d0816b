/**
 * Shape of a job (docs/design/contracts/02-http.md §2, "Jobs"). Light: a VM's process loads it before it
 * answers.
 */
import { z } from "zod";

export const JobId = z.string().regex(/^[0-9a-f]{8}$/, "must be the id of a job: 8 characters of 0-9a-f");

/** One job, as its VM's process sees it. */
export const JobRecord = z.strictObject({
  id: JobId,
  argv: z.array(z.string()).min(1).describe("with refs in place of secrets, as in the record"),
  cwd: z.string().optional(),
  tty: z.boolean(),
  /** `Waiting`: policy has not decided yet */
  state: z.enum(["Waiting", "Running", "Ended"]),
  started_at: z.iso.datetime(),
  ended_at: z.iso.datetime().optional(),
  duration_ms: z.number().optional(),
  exit_code: z.int().optional().describe("absent: unknown, or the job has not ended"),
  reason: z.string().optional().describe("reason of its end; absent if its program ended on its own"),
  event_id: z.string().optional().describe("event of its start; absent until policy has decided"),
});
export type JobRecord = z.infer<typeof JobRecord>;
