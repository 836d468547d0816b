/** Routes of jobs (docs/design/contracts/02-http.md §2, "Jobs"). */
import { createRoute, z } from "@hono/zod-openapi";
import { JobRecord } from "../../session/job/schema.ts";
import { answers, body, VmParam } from "./common.ts";
import { ExecRequest } from "./vm.ts";

/** Most lines that `?tail=` may ask for. */
const TAIL_MAX = 1_000_000;

const tags = ["job"];
const ServiceParam = VmParam.extend({
  service: z.string().openapi({ param: { name: "service", in: "path" }, example: "postgres" }),
});
const JobParam = VmParam.extend({
  job: z.string().openapi({ param: { name: "job", in: "path" }, example: "3f2a90c1" }),
});

/** A job as clients see it: its VM's process knows neither the name of the VM nor that it is paused. */
export const Job = z.object({
  ...JobRecord.shape,
  id: z.string(),
  vm: z.string().describe("name of its VM"),
  state: z.enum(["Waiting", "Running", "Paused", "Suspended", "Ended"]).describe(
    "Waiting: policy asks a person; Paused, Suspended: its VM is",
  ),
}).openapi("Job");
export type Job = z.infer<typeof Job>;

export const JobList = z.object({ jobs: z.array(Job) }).openapi("JobList");
export type JobList = z.infer<typeof JobList>;

const { command, cwd, user, env, timeout_secs } = ExecRequest.shape;

/** A program to start in the background. */
export const JobRequest = z.strictObject({
  command,
  cwd,
  user,
  env,
  timeout_secs: timeout_secs.describe("not allowed with tty"),
  tty: z.boolean().optional().describe(
    "the job runs on a terminal, which WS /terminal/{id}?job= attaches to",
  ),
}).refine(
  ({ tty, timeout_secs }) => !tty || timeout_secs === undefined,
  { path: ["timeout_secs"], message: "must be absent for a job with a terminal" },
).openapi("JobStart");
export type JobRequest = z.infer<typeof JobRequest>;

/** Which of the output to read. Positions count bytes of stdout and stderr together. */
export const JobLogsQuery = z.object({
  tail: z.coerce.number().int().min(0).max(TAIL_MAX).optional().describe("only the last lines"),
  from: z.coerce.number().int().min(0).optional().describe("position in the output to begin at; default 0"),
  follow: z.enum(["true", "false"]).optional().describe(
    "event stream only: also output that is still to come, until the job ends",
  ),
});

export const JobLogs = z.object({
  stdout: z.string(),
  stderr: z.string().describe("empty for a job with a terminal"),
  missing_bytes: z.int().describe("bytes that are gone: the oldest, or ones that the disk had no space for"),
  next: z.int().describe("?from= for the output after this"),
  job: Job,
}).openapi("JobLogs");
export type JobLogs = z.infer<typeof JobLogs>;

/** The route of an order to a service. */
function serviceRoute<A extends "start" | "stop" | "restart">(action: A, about: string) {
  return createRoute({
    method: "post",
    path: `/vms/{id}/services/{service}/${action}`,
    tags,
    request: { params: ServiceParam },
    responses: answers(about, Job),
  });
}

export const jobRoutes = {
  all: createRoute({
    method: "get",
    path: "/jobs",
    tags,
    responses: answers("the jobs of all VMs, by VM, the oldest first", JobList),
  }),
  list: createRoute({
    method: "get",
    path: "/vms/{id}/jobs",
    tags,
    request: { params: VmParam },
    responses: answers("the VM's jobs, the oldest first", JobList),
  }),
  start: createRoute({
    method: "post",
    path: "/vms/{id}/jobs",
    tags,
    request: { params: VmParam, ...body(JobRequest) },
    responses: answers("the job; Ended with exit code 126 when policy blocked it", Job),
  }),
  get: createRoute({
    method: "get",
    path: "/vms/{id}/jobs/{job}",
    tags,
    request: { params: JobParam },
    responses: answers("the job", Job),
  }),
  logs: createRoute({
    method: "get",
    path: "/vms/{id}/jobs/{job}/logs",
    tags,
    request: { params: JobParam, query: JobLogsQuery },
    responses: answers("output that is kept, or an event stream of it", JobLogs),
  }),
  stop: createRoute({
    method: "post",
    path: "/vms/{id}/jobs/{job}/stop",
    tags,
    request: { params: JobParam },
    responses: answers("the job; still Running when its program does not end in 5 s", Job),
  }),
  services: createRoute({
    method: "get",
    path: "/vms/{id}/services",
    tags,
    request: { params: VmParam },
    responses: answers("the VM's services, which are jobs, by the time of their start", JobList),
  }),
  startService: serviceRoute("start", "the service's job; unchanged if it runs"),
  stopService: serviceRoute(
    "stop",
    "the service's job, which has ended; the VM's next start starts it again",
  ),
  restartService: serviceRoute("restart", "the service's job, started again"),
};
