/**
 * Shape of a job (docs/design/contracts/02-http.md §2, "Jobs"). Light: a VM's process loads it before it
 * answers.
 */
import { z } from "zod";

export const JobId = z.string().regex(/^[0-9a-f]{8}$/, "must be the id of a job: 8 characters of 0-9a-f");

/** State of a service (docs/guides/services.md). */
export const ServiceState = z.enum([
  "Waiting",
  "Starting",
  "Ready",
  "Unhealthy",
  "Restarting",
  "Done",
  "Failed",
  "Stopped",
]);
export type ServiceState = z.infer<typeof ServiceState>;

/** The service that a job is. */
export const ServiceStatus = z.strictObject({
  name: z.string(),
  state: ServiceState.describe(
    "Waiting: for others, or for policy; Unhealthy: the image's health check fails; Restarting: it has ended, and starts again; Done: it ended well and stays so",
  ),
  reason: z.string().optional().describe("what it waits for, or why it ended"),
  restarts: z.int().describe("since it was started"),
  last_exit_code: z.int().optional().describe(
    "exit code of its program's last end; absent: none yet, or unknown",
  ),
  last_ended_at: z.iso.datetime().optional(),
});
export type ServiceStatus = z.infer<typeof ServiceStatus>;

/** One job, as its VM's process sees it. */
export const JobRecord = z.strictObject({
  id: JobId,
  argv: z.array(z.string()).min(1).describe("arguments with refs in place of secrets, as in the record"),
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
  service: ServiceStatus.optional().describe("absent: it is no service of the VM's profile"),
});
export type JobRecord = z.infer<typeof JobRecord>;
