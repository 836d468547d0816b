/** Tools for programs in the background of a VM. */
import { z } from "zod";
import { Job, JobLogs, JobRequest } from "../../../lib/client/api/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Context, type Tool, tool, vm } from "../tool.ts";
import { HeadAndTail, OUTPUT_BYTES, OUTPUT_BYTES_MAX } from "./output.ts";

const { command, cwd, env, timeout_secs } = JobRequest.shape;
const job = Job.shape.id.describe("id of the job; `jobs` lists them");

/** Path of the jobs of a VM that the agent may touch. */
async function jobsPath(context: Context, idOrName: string): Promise<string> {
  return `/vms/${segment(await context.vm(idOrName))}/jobs`;
}

export const JOB_TOOLS: Tool[] = [
  tool({
    name: "start_job",
    title: "Start a program in the background of a VM",
    description:
      "Starts a program in a VM as root and returns at once: for servers, and for work that takes many minutes. It goes on when " +
      "this session ends, and ends with the VM. Poll `job_logs` for its output. State Waiting: a person has to allow it. " +
      "Ended with exit code 126: the VM's policy refused it (`why` with event_id).",
    input: z.strictObject({
      vm,
      command: command.describe("a command line for /bin/sh, or a list of a program and its arguments"),
      cwd: cwd.describe("working directory; default: /workspace"),
      env: env.describe("environment variables of the program"),
      timeout_secs: timeout_secs.describe(
        "time limit; the program is then ended with exit code 124; default: none",
      ),
    }),
    output: Job,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    run: async ({ vm, ...json }, context) => {
      return await context.client.json("POST", await jobsPath(context, vm), { json });
    },
  }),
  tool({
    name: "jobs",
    title: "List the jobs of a VM",
    description:
      "Lists programs that `start_job` started, the oldest first, with state, exit code and duration.",
    input: z.strictObject({ vm }),
    output: z.object({ jobs: z.array(Job) }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (input, context) => await context.client.json("GET", await jobsPath(context, input.vm)),
  }),
  tool({
    name: "job_logs",
    title: "Read the output of a job",
    description:
      "Returns the output of a job that is kept, and the job. Give next of one result as from in the following call to get " +
      "only new output, or tail for the last lines.",
    input: z.strictObject({
      vm,
      job,
      tail: z.int().min(1).max(10_000).optional().describe("only the last lines"),
      from: z.int().min(0).optional().describe("next of an earlier result: only output after it"),
      max_output_bytes: z.int().min(1024).max(OUTPUT_BYTES_MAX).default(OUTPUT_BYTES)
        .describe("limit of each stream; the middle of longer output is omitted"),
    }),
    output: JobLogs,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async ({ vm, job, tail, from, max_output_bytes }, context) => {
      const path = `${await jobsPath(context, vm)}/${segment(job, "job")}/logs`;
      const logs = await context.client.json<JobLogs>("GET", path, { query: { tail, from } });
      const cut = (text: string) => shorten(text, max_output_bytes);
      return { ...logs, stdout: cut(logs.stdout), stderr: cut(logs.stderr) };
    },
  }),
  tool({
    name: "stop_job",
    title: "End a job",
    description: "Ends a job: SIGTERM, and SIGKILL after two seconds. Its output stays readable.",
    input: z.strictObject({ vm, job }),
    output: Job,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: async ({ vm, job }, context) =>
      await context.client.json("POST", `${await jobsPath(context, vm)}/${segment(job, "job")}/stop`),
  }),
  tool({
    name: "control_service",
    title: "Start, stop or restart a service of a VM",
    description:
      "Services are programs that the VM's profile starts with it, in order, and again when they end. `jobs` lists them, with " +
      "name, state, restarts and last exit code in its field service, and `job_logs` reads their output. One that was stopped starts with " +
      "the VM's next start; one in state Failed is started again only by this.",
    input: z.strictObject({
      vm,
      service: z.string().describe("its name; `jobs` lists them"),
      action: z.enum(["start", "stop", "restart"]),
    }),
    output: Job,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    run: async ({ vm, service, action }, context) => {
      const path = `/vms/${segment(await context.vm(vm))}/services/${segment(service, "service")}`;
      return await context.client.json("POST", `${path}/${action}`);
    },
  }),
];

function shorten(text: string, bytes: number): string {
  const parts = new HeadAndTail(bytes);
  parts.add(new TextEncoder().encode(text));
  return parts.text();
}
