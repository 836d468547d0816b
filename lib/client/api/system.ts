/** Routes of the service itself (docs/design/contracts/02-http.md §2). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers } from "./common.ts";
import { SinkStanding } from "./sink.ts";
import { UpdateStatus } from "./update.ts";

/** Build of the running service. */
export const Version = z.object({
  version: z.string(),
  build_hash: z.string(),
  build_time: z.string().nullable(),
  platform: z.string(),
  runtime: z.string(),
})
  .openapi("Version");
export type Version = z.infer<typeof Version>;

/** State of the service process. */
export const ServiceStatus = z.object({
  ok: z.boolean().describe("there are no issues"),
  version: z.string(),
  pid: z.int(),
  uptime_secs: z.number(),
  vms: z.object({ running: z.int(), total: z.int() }),
  issues: z.array(z.string()).describe("problems, one line each, with the remedy"),
  permissions: z.record(z.string(), z.string()).describe("state of each Deno permission of this process"),
}).openapi("ServiceStatus");
export type ServiceStatus = z.infer<typeof ServiceStatus>;

/** State of the service, with its host, its images and its disk. */
export const SystemStatus = ServiceStatus.extend({
  host: z.object({ os: z.string(), arch: z.string(), cpus: z.int() }),
  hypervisor: z.object({
    name: z.string(),
    accelerator: z.string(),
    reason: z.string(),
    features: z.record(z.string(), z.boolean()),
    missing: z.record(z.string(), z.string()).describe(
      "why this host lacks a feature, and what to install for it",
    ),
  }),
  assets: z.array(
    z.object({ profile_id: z.string(), arch: z.string(), ready: z.boolean(), missing: z.array(z.string()) }),
  ),
  templates: z.object({
    enabled: z.boolean(),
    count: z.int(),
    bytes: z.int().describe("disk space of all of them"),
    making: z.int().describe("number in preparation"),
    problems: z.array(z.string()).describe("why some could not be made, or did not start"),
    spare_ram_mb: z.int().optional().describe("memory of the machine started ahead; absent without one"),
  }),
  idle_suspend: z.object({
    minutes: z.number().describe("minutes after which an idle VM is suspended; 0: never"),
    problem: z.string().optional().describe("why the setting has no effect"),
  }),
  update: UpdateStatus.describe("as of GET /update/status"),
  old_programs: z.array(z.object({
    program: z.enum(["service", "gateway", "vm"]),
    pid: z.int(),
    vm: z.string().optional().describe("name of the VM"),
  })).describe("processes whose program was replaced since they started: sbx update restart"),
  disk: z.object({
    free_bytes: z.int().describe("bytes that this user may still write to the disk of the home"),
    records_bytes: z.int().describe("bytes of all records when they were last measured"),
    records_max_bytes: z.int().describe("limit of all records, ledger.max_total_mb, in bytes; 0: no limit"),
  }),
  corp: z.string().describe("state of corp.toml, one sentence"),
  sinks: z.array(SinkStanding).describe("as of GET /corp/sinks"),
  setup: z.object({ completed_steps: z.array(z.string()).describe("assets, vm, providers, agent") }).describe(
    "finished steps of the set-up of this home (docs/design/contracts/11-debug-report.md §11)",
  ),
}).openapi("SystemStatus");
export type SystemStatus = z.infer<typeof SystemStatus>;

/** Checks of the machine, and the repairs made. */
export const HostDoctor = z.object({
  schema: z.literal("sbx.host-doctor.v1"),
  ok: z.boolean().describe("no check failed"),
  checks: z.array(z.object({
    id: z.string(),
    title: z.string(),
    state: z.enum(["ok", "failed", "skipped"]).describe(
      "skipped: nothing to mend, but something could be better",
    ),
    detail: z.string(),
    remedy: z.string().optional().describe("command that mends a failed check"),
    fixable: z.boolean().optional().describe("POST /system/doctor/fix mends it"),
  })),
  fixed: z.array(z.string()).describe("changes made, in words"),
}).openapi("HostDoctor");
export type HostDoctor = z.infer<typeof HostDoctor>;

/** Content type of the text format of Prometheus. */
export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const get = <P extends string, S extends z.ZodType>(path: P, description: string, schema: S) =>
  createRoute({ method: "get", path, tags: ["system"], responses: answers(description, schema) });

export const systemRoutes = {
  version: get("/version", "version of the service", Version),
  status: get("/status", "state of the service", ServiceStatus),
  system: get("/system/status", "state of the service, its host and its hypervisor", SystemStatus),
  doctor: get("/system/doctor", "checks of this machine, as sbx doctor makes them", HostDoctor),
  mend: createRoute({
    method: "post",
    path: "/system/doctor/fix",
    tags: ["system"],
    responses: answers("mends harmless problems and repeats the checks", HostDoctor),
  }),
  metrics: createRoute({
    method: "get",
    path: "/metrics",
    tags: ["system"],
    responses: {
      200: {
        description: "metrics in the text format of Prometheus (docs/guides/metrics.md)",
        content: { "text/plain": { schema: z.string() } },
      },
      default: answers("", z.string()).default,
    },
  }),
};
