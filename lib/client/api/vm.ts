/**
 * Routes of VMs, with their requests and responses (docs/design/contracts/02-http.md §2, "Virtual machines").
 */
import { ARCHES } from "../../base/arch/mod.ts";
import { createRoute, z } from "@hono/zod-openapi";
import {
  HOST_SERVICES_MAX,
  VM_CPU_MAX,
  VM_RAM_GB_MAX,
  VM_SCRATCH_DISK_GB_MAX,
} from "../../config/profile/limit/schema.ts";
import { Hold } from "../../detection/response/schema.ts";
import { ProgramLimits, ReachedLimit, VmLimits } from "../../machine/limit/schema.ts";
import { VmBudget } from "../../policy/budget/schema.ts";
import { NarrowingRules } from "../../policy/author/schema.ts";
import { DevcontainerSettings } from "../../release/environment/schema.ts";
import { CredentialLabel, ProviderId } from "./credential.ts";
import { answers, body, KeyHeader, VmParam } from "./common.ts";

// A folder of the host in a VM (docs/guides/live.md).

export const LiveRequest = z.strictObject({
  dir: z.string().max(4096).describe("absolute path of a folder of this host"),
  with_secrets: z.boolean().optional().describe("the guest sees files that look like secrets too"),
}).describe("a folder of the host that the guest gets read-write, with masks");

export const LiveInfo = z.object({
  dir: z.string().describe("folder of the host"),
  place: z.string().describe("folder in the guest"),
  is_repository: z.boolean(),
}).describe("absent: the guest has no folder of the host");

// The records of a VM: logs, events, programs (docs/design/contracts/02-http.md §2, "Virtual machines").

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

/**
 * First character alphanumeric, then `[A-Za-z0-9_-]`, at most 64 characters
 * (docs/design/contracts/14-limits.md §14).
 */
export const VM_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

export const VmStatus = z.enum(["Booting", "Running", "Paused", "Stopped", "Suspended", "Defunct"]).openapi(
  "VmStatus",
);
export type VmStatus = z.infer<typeof VmStatus>;

export const VmAction = z.enum([
  "exec",
  "shell",
  "stop",
  "start",
  "pause",
  "resume",
  "suspend",
  "fork",
  "save",
  "delete",
  "set",
]);
export type VmAction = z.infer<typeof VmAction>;

/** Environment variables of a VM or of one program in it. */
export const EnvSchema = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/).max(128),
  z.string().max(128 * 1024).regex(/^[^\0]*$/, "must not contain NUL"),
);

/** Least memory of a VM, in `MiB`. */
export const RAM_MB_MIN = 256;

/** Most keys that a request names. */
const CREDENTIALS_MAX = 32;

/** Labels of keys, by provider. */
const CredentialLabels = z.record(ProviderId, CredentialLabel).refine(
  (labels) => Object.keys(labels).length <= CREDENTIALS_MAX,
  `must name at most ${CREDENTIALS_MAX} keys`,
).describe(
  "labels of the only keys that it uses, by provider; default: of each provider the one added last",
);

/** Longest wait of a create for room, in `s`. */
const QUEUE_SECS_MAX = 24 * 3600;

/** Most folders that a request names, as a VM takes them. */
const FOLDERS_MAX = 32;

export const CreateRequest = z.strictObject({
  name: z.string().regex(
    VM_NAME,
    "must start with a letter or digit, then letters, digits, _ and -, at most 64 characters",
  ).optional().describe("default: the first free one of vm-1, vm-2, …"),
  profile_id: z.string().regex(/^[a-z0-9_-]{1,64}$/).optional().describe("default: code"),
  cpus: z.int().min(1).max(VM_CPU_MAX).optional(),
  ram_mb: z.int().min(RAM_MB_MIN).max(VM_RAM_GB_MAX * 1024).optional(),
  disk_gb: z.int().min(1).max(VM_SCRATCH_DISK_GB_MAX).optional().describe(
    "size of the disk, sparse on the host; a copy's may be larger than its source's",
  ),
  arch: z.enum(ARCHES).optional().describe(
    "default: this machine's; the other one is emulated, and needs an image for it",
  ),
  persistent: z.boolean().optional().describe("default false: removed when it stops"),
  env: EnvSchema.optional(),
  host_services: z.array(z.string().max(64)).max(HOST_SERVICES_MAX).optional().describe(
    "names of the profile's [host] services that the VM gets; default: all",
  ),
  image: z.string().max(1024).optional().describe(
    "OCI image that this home has (sbx image pull), such as golang:1.25; default: the profile's",
  ),
  from: z.string().optional().describe(
    "id or name of a stopped VM whose disk and workspace are copied",
  ),
  live: LiveRequest.optional(),
  agent: z.string().regex(/^[a-z0-9_-]{1,64}$/).optional().describe(
    "profile of the agent that works in it, by which sbx agent finds it again",
  ),
  devcontainer: DevcontainerSettings.optional().describe(
    "settings of a devcontainer.json for programs; a copy has its source's",
  ),
  limits: VmLimits.optional().describe(
    "limits of the VM and of its programs, at most its profile's; a copy has its source's",
  ),
  credentials: CredentialLabels.optional(),
  project: NarrowingRules.optional().describe(
    "rules of the folder's project file, which can only take away; a copy has its source's",
  ),
  budget: VmBudget.optional().describe(
    "limits of its session, beside its profile's; a copy has its source's",
  ),
  queue_secs: z.int().min(0).max(QUEUE_SECS_MAX).optional().describe(
    "longest wait for room, where the limits of VMs or of their memory are reached; default 0",
  ),
  folders: z.array(z.strictObject({
    dir: z.string().max(4096).startsWith("/", "must be an absolute path"),
    with_requests: z.boolean().default(false).describe(
      "the requests of its file are granted here, and a person must have approved them",
    ),
  })).max(FOLDERS_MAX).optional().describe(
    "folders of this host that it will work on: the rules of their project files hold, and corp's word about them",
  ),
}).openapi("VmCreate");
export type CreateRequest = z.infer<typeof CreateRequest>;

export const QueueResult = z.object({
  running: z.int().describe("VMs that run, and ones that were just let in"),
  max_running: z.int().describe("vm.resources.max_concurrent_vms"),
  ram_mb: z.int().describe("memory that they have together"),
  max_ram_mb: z.int().nullable().describe("vm.resources.max_ram_gb; null: no limit"),
  waiting: z.array(z.object({
    name: z.string().optional(),
    client: z.string().optional().describe("program that asked"),
    ram_mb: z.int(),
    since: z.iso.datetime(),
  })).describe("creates that wait for room, the next one first"),
}).openapi("Queue");
export type QueueResult = z.infer<typeof QueueResult>;

export const VmSummary = z.object({
  id: z.uuid().describe("also the id of its session"),
  name: z.string(),
  profile_id: z.string(),
  status: VmStatus,
  persistent: z.boolean(),
  limits: VmLimits.optional().describe("limits of the VM and of its programs; absent: none"),
  parent: z.object({ id: z.uuid(), server: z.string() }).optional().describe(
    "the VM whose stdio MCP server runs in this one",
  ),
  available_actions: z.array(VmAction),
  cpus: z.int(),
  ram_mb: z.int(),
  disk: z.object({
    size_gb: z.int().describe("0: the guest's writes stay in its memory"),
    used_bytes: z.int().describe("space that it takes on the host: blocks that the guest freed still count"),
  }),
  image_reference: z.string().optional().describe(
    "OCI image that is its root file system; absent: the profile's own",
  ),
  agent: z.string().optional().describe("profile of the agent that works in it"),
  last_error: z.string().optional(),
  unhealthy: z.literal(true).optional().describe("the health check of its image's program fails"),
  suspended_by: z.enum(["person", "idle"]).optional().describe(
    "of a suspended VM: an idle one resumes automatically on the next request",
  ),
  response: Hold.optional().describe("what holds it back after a finding, until it is lifted"),
}).openapi("Vm");
export type VmSummary = z.infer<typeof VmSummary>;

/** Folder of the host that a VM works on, and the time of its last event, for lists. */
export const VmWork = z.object({
  folder: z.object({
    dir: z.string().describe("folder of this host"),
    place: z.string().describe("folder in the VM"),
    untaken: z.object({ commits: z.int(), files: z.int(), at: z.iso.datetime() }).optional().describe(
      "work that no pull took, as it was last compared; absent: not yet",
    ),
  }).optional().describe("absent: none was brought in"),
  repositories: z.array(z.object({
    name: z.string().describe("name for sbx pull and the routes of work"),
    dir: z.string().describe("folder of this host"),
    place: z.string().describe("folder in the VM"),
    is_repository: z.boolean().describe("false: a folder without one"),
    is_read_only: z.boolean().describe("no changes come back"),
    is_live: z.boolean().describe("the VM has the folder itself"),
    branches: z.array(z.string()).describe("branches that pulls have made or moved"),
  })).optional().describe("repositories and folders that were brought in, in that order; absent: none"),
  active_at: z.iso.datetime().optional().describe("last write to its record; absent: none"),
  old_program: z.literal(true).optional().describe("its process runs a program that was replaced since"),
});

export type VmWork = z.infer<typeof VmWork>;

export const VmListed = VmSummary.extend(VmWork.shape).openapi("VmListed");
export type VmListed = z.infer<typeof VmListed>;

/** One stage of a boot; `ms` since the boot began on the host. */
export const BootStage = z.object({ name: z.string(), ms: z.number() }).openapi("BootStage");
export type BootStage = z.infer<typeof BootStage>;

/** The profile that a running VM enforces (docs/design/contracts/04-profiles.md §4, "Refresh"). */
export const ProfileInForce = z.object({
  revision: z.string().describe("revision that its events name"),
  outdated: z.boolean().describe(
    "the profile's files have changed since; this VM still runs with the earlier ones",
  ),
  project: NarrowingRules.optional().describe(
    "rules of the project file with which it was made: between corp's and the profile's",
  ),
}).openapi("ProfileInForce");

/** The VM that another one is a copy of, and the end of its ledger's chain of events at that moment. */
export const ForkedFrom = z.object({
  session: z.uuid(),
  event: z.object({ id: z.string(), hash: z.string() }).optional().describe("absent: it had no events"),
}).openapi("ForkedFrom");

export const VmInfo = VmListed.extend({
  created_at: z.iso.datetime(),
  session_id: z.string(),
  image: z.object({
    profile_id: z.string().optional(),
    version: z.string(),
    reference: z.string().optional().describe(
      "OCI image that is its root file system; absent: the profile's own",
    ),
    digest: z.string().optional().describe("digest of that image's manifest"),
    ports: z.array(z.int()).optional().describe("TCP ports that the image names"),
    before: z.object({ reference: z.string(), digest: z.string() }).partial().optional().describe(
      "image that it had before, and can go back to; without a reference, that of its profile",
    ),
    is_new: z.literal(true).optional().describe(
      "its first start with another image, whose conflicts are listed",
    ),
  }).optional().describe(
    "image that it booted; without a profile: pinned by its own, or for every profile",
  ),
  devcontainer: DevcontainerSettings.optional(),
  credentials: CredentialLabels.optional(),
  arch: z.enum(ARCHES),
  accelerator: z.string().optional().describe("kvm, tcg, or vz on a Mac; absent before the first boot"),
  forked_from: ForkedFrom.optional().describe("the VM that this one is a copy of"),
  started_by: z.enum(["cold", "template", "resume", "fork"]).optional().describe(
    "absent before the first boot",
  ),
  started_why: z.string().optional().describe(
    "why it did not start from memory, or the reason a suspended VM resumed",
  ),
  hypervisor: z.string(),
  features: z.record(z.string(), z.boolean()),
  pid: z.int().optional().describe("pid of the VM's sbx-process"),
  live: LiveInfo.optional(),
  workspace: z.string().describe("path of the shared folder on the host"),
  logs: z.string().describe("path of the VM's log folder on the host"),
  boot_stages: z.array(BootStage).describe("stages, in ms since the boot began"),
  profile_in_force: ProfileInForce.optional().describe("profile that a running VM enforces"),
  deprecated: z.array(z.string()).optional().describe(
    "its profile, image and detection packs, where their publisher deprecated or revoked them, one sentence each",
  ),
}).openapi("VmInfo");
export type VmInfo = z.infer<typeof VmInfo>;

/** Longest timeout of a program in `s`. */
export const EXEC_TIMEOUT_MAX_SECS = 24 * 3600;

/**
 * Characters of a command line, or of all arguments together; the guest's kernel
 * has a limit of the same order.
 */
export const COMMAND_LIMIT = 128 * 1024;
const word = z.string().regex(/^[^\0]*$/, "must not contain NUL");

export const ExecRequest = z.strictObject({
  command: z.union([
    word.min(1).max(COMMAND_LIMIT),
    z.array(word).min(1).refine(
      (argv) => argv.join(" ").length <= COMMAND_LIMIT,
      `at most ${COMMAND_LIMIT} characters`,
    ),
  ]).describe(
    "a shell command line, or a list of a program and its arguments",
  ),
  cwd: z.string().optional().describe("default: the image's working directory, or /workspace"),
  user: z.string().min(1).max(256).regex(/^[^\0]*$/, "must not contain NUL").optional().describe(
    "name or number of a user of the guest, and the group after a colon; default: the image's user, or root",
  ),
  env: EnvSchema.optional(),
  limits: ProgramLimits.optional().describe("limits of this program, at most its VM's"),
  timeout_secs: z.number().positive().max(EXEC_TIMEOUT_MAX_SECS).optional(),
  stdin: z.string().optional(),
  stdin_encoding: z.enum(["utf8", "base64"]).optional().describe("default: utf8"),
}).openapi("Exec");
export type ExecRequest = z.infer<typeof ExecRequest>;

/** First message of `WS /program/{id}`. */
export const PipedRequest = ExecRequest.omit({ stdin: true, stdin_encoding: true }).openapi("ExecPiped");
export type PipedRequest = z.infer<typeof PipedRequest>;

export const ExecResult = z.object({
  stdout: z.string(),
  stderr: z.string(),
  exit_code: z.int(),
  truncated: z.boolean().describe("a stream exceeded 10 MiB and was cut"),
  duration_ms: z.number(),
  event_id: z.string(),
  limits_reached: z.array(ReachedLimit).optional().describe(
    "limits that the program has reached; absent: none",
  ),
}).openapi("ExecResult");
export type ExecResult = z.infer<typeof ExecResult>;

export const RunRequest = z.strictObject({
  ...ExecRequest.shape,
  profile_id: CreateRequest.shape.profile_id,
  limits: CreateRequest.shape.limits,
  cpus: CreateRequest.shape.cpus,
  ram_mb: CreateRequest.shape.ram_mb,
  arch: CreateRequest.shape.arch,
  image: CreateRequest.shape.image,
  credentials: CreateRequest.shape.credentials,
  queue_secs: CreateRequest.shape.queue_secs,
}).openapi("Run");
export type RunRequest = z.infer<typeof RunRequest>;

export const RunResult = ExecResult.extend({
  vm: VmInfo,
  events: z.array(z.record(z.string(), z.unknown())).describe(
    "the first events of the session, oldest first",
  ),
  next_cursor: z.string().optional().describe("?cursor= of GET /sessions/{id}/events for the rest"),
}).openapi("RunResult");
export type RunResult = z.infer<typeof RunResult>;

export const SetRequest = z.strictObject({
  cpus: CreateRequest.shape.cpus,
  ram_mb: CreateRequest.shape.ram_mb,
  disk_gb: CreateRequest.shape.disk_gb.describe("larger than it is"),
  image: CreateRequest.shape.image.describe(
    "OCI image that this home has, in place of the VM's own: the changes on its disk stay",
  ),
  undo_image: z.literal(true).optional().describe("the image that it had before"),
  credentials: z.record(ProviderId, CredentialLabel.nullable()).refine(
    (labels) => Object.keys(labels).length <= CREDENTIALS_MAX,
    `must name at most ${CREDENTIALS_MAX} keys`,
  ).optional().describe(
    "labels of the only keys that it uses, by provider, also while it runs; null: the one added last; others stay",
  ),
}).refine((change) => Object.values(change).some((value) => value !== undefined), "must change something")
  .refine(({ image, undo_image }) => !(image && undo_image), "cannot have both image and undo_image")
  .openapi("VmSet");
export type SetRequest = z.infer<typeof SetRequest>;

export const ImageConflicts = z.object({
  image: z.string().optional().describe("reference; absent: the image of its profile's packages"),
  before: z.string().optional(),
  files: z.array(z.object({
    path: z.string(),
    kind: z.enum(["changed", "added", "removed", "deleted", "replaced"]).describe(
      "changed or added by both; removed by the image, and kept by the VM; deleted by the VM, and changed by the image; " +
        "a folder that the VM replaced, and the image has changed",
    ),
    is_package_list: z.boolean().describe("the list of packages of dpkg, apk or rpm"),
  })).describe("the VM's own are in force"),
  total: z.int(),
}).openapi("ImageConflicts");
export type ImageConflicts = z.infer<typeof ImageConflicts>;

export const SaveRequest = z.strictObject({ name: CreateRequest.shape.name }).openapi("VmSave");
/** Most VMs of one fork (docs/design/contracts/14-limits.md §14). */
export const FORK_COUNT_MAX = 16;

export const ForkRequest = z.strictObject({
  name: CreateRequest.shape.name.describe("name of the new VM; of several, with -1, -2, … behind it"),
  count: z.int().min(1).max(FORK_COUNT_MAX).optional().describe("number of new VMs; default 1"),
  at: z.string().regex(/^(s[0-9a-f]{8}|[1-9][0-9]{0,8})$/).optional().describe(
    "snapshot whose workspace they have, or number of a state whose repositories they have, with the disk as it is now and " +
      "without memory; default: the VM as it is",
  ),
}).openapi("VmFork");
export type ForkRequest = z.infer<typeof ForkRequest>;

export const ForkResult = z.object({
  vms: z.array(VmSummary),
  still_ms: z.number().optional().describe("time that a running source stood still"),
}).openapi("VmForks");
export type ForkResult = z.infer<typeof ForkResult>;
export const PurgeRequest = z.strictObject({
  all: z.boolean().optional().describe(
    "delete all VMs, including persistent and running ones; default: only temporary VMs that are not running",
  ),
  force: z.boolean().optional().describe("also VMs with work that was not pulled"),
  deleted: z.boolean().optional().describe("remove the VMs that were deleted, and no others"),
}).openapi("Purge");
export type PurgeRequest = z.infer<typeof PurgeRequest>;
export const PurgeResult = z.object({
  removed: z.array(z.string()),
  kept: z.array(z.string()).describe("VMs with work that was not pulled, which stay"),
}).openapi("PurgeResult");
export type PurgeResult = z.infer<typeof PurgeResult>;

export const DeletedVm = z.object({
  id: z.uuid(),
  name: z.string(),
  profile_id: z.string(),
  deleted_at: z.iso.datetime(),
  expires_at: z.iso.datetime().describe("removed then, or before if the disk gets short of room"),
}).openapi("DeletedVm");
export type DeletedVm = z.infer<typeof DeletedVm>;
export const DeleteResult = z.object({
  id: z.uuid(),
  deleted: z.literal(true),
  restorable_until: z.iso.datetime().optional().describe("absent: it is gone"),
}).openapi("DeleteResult");
export type DeleteResult = z.infer<typeof DeleteResult>;
export const RestoreRequest = z.strictObject({
  name: CreateRequest.shape.name.describe("new name; default: the one that it had"),
}).openapi("Restore");

export const StatusResult = z.object({ id: z.uuid(), status: VmStatus, last_error: z.string().optional() });

const tags = ["vm"];
const vm = <
  M extends "get" | "post" | "delete",
  A extends string,
  S extends z.ZodType,
  R extends object = Record<never, never>,
>(
  method: M,
  action: A,
  description: string,
  schema: S,
  request = {} as R,
) =>
  createRoute({
    method,
    path: `/vms/{id}/${action}`,
    tags,
    request: { params: VmParam, ...request },
    responses: answers(description, schema),
  });

export const vmRoutes = {
  create: createRoute({
    method: "post",
    path: "/vms/create",
    tags,
    request: { headers: KeyHeader, ...body(CreateRequest) },
    responses: answers("the new VM, booting", VmSummary),
  }),
  queue: createRoute({
    method: "get",
    path: "/vms/queue",
    tags,
    responses: answers("creates that wait for room", QueueResult),
  }),
  list: createRoute({
    method: "get",
    path: "/vms/list",
    tags,
    request: {
      query: z.object({
        all: z.enum(["true", "false"]).optional().describe(
          "also the VMs of stdio MCP servers; default false",
        ),
        limit: z.coerce.number().int().min(1).max(1000).optional().describe("VMs of a page; default: all"),
        cursor: z.string().max(128).optional().describe("next_cursor of the page before"),
      }),
    },
    responses: answers(
      "VMs, the oldest first",
      z.object({ vms: z.array(VmListed), next_cursor: nextCursor }),
    ),
  }),
  info: vm("get", "info", "details of one VM", VmInfo),
  status: vm("get", "status", "status of the VM", StatusResult),
  logs: vm("get", "logs", "last lines of the VM's logs", LogsResult),
  timeline: vm("get", "timeline", "events of the VM's session, oldest first", TimelineResult, {
    query: PageQuery,
  }),
  history: vm("get", "history", "programs that were run in the VM, oldest first", HistoryResult, {
    query: PageQuery,
  }),
  exec: vm("post", "exec", "output and exit code of the program", ExecResult, body(ExecRequest)),
  stop: vm("post", "stop", "the VM, stopped", VmSummary),
  start: vm("post", "start", "the VM, booting", VmSummary),
  lift: vm("post", "lift", "the VM, which no finding holds back any more", VmSummary),
  pause: vm("post", "pause", "the VM, paused", VmSummary),
  resume: vm("post", "resume", "the VM, running", VmSummary),
  suspend: vm("post", "suspend", "the VM, its memory on disk", VmSummary),
  fork: vm("post", "fork", "the new VMs, booting", ForkResult, {
    headers: KeyHeader,
    ...body(ForkRequest),
  }),
  save: vm("post", "save", "the VM, persistent from now on", VmSummary, body(SaveRequest)),
  set: vm(
    "post",
    "set",
    "the VM: with another size or image from its next start, with other keys at once",
    VmSummary,
    body(SetRequest),
  ),
  imageConflicts: vm(
    "get",
    "image-conflicts",
    "files that both the VM and its new image have changed, as its first start with that image found them",
    ImageConflicts,
  ),
  delete: vm("delete", "delete", "the VM is deleted", DeleteResult, {
    query: z.object({
      force: z.enum(["true", "false"]).optional().describe("also with work that was not pulled"),
    }),
  }),
  deleted: createRoute({
    method: "get",
    path: "/vms/deleted",
    tags,
    responses: answers("deleted VMs, the newest first", z.object({ vms: z.array(DeletedVm) })),
  }),
  restore: vm("post", "restore", "the VM, as it was", VmSummary, body(RestoreRequest)),
  run: createRoute({
    method: "post",
    path: "/run",
    tags,
    request: body(RunRequest),
    responses: answers("output and exit code of the program", RunResult),
  }),
  purge: createRoute({
    method: "post",
    path: "/purge",
    tags,
    request: body(PurgeRequest),
    responses: answers("names of the deleted VMs", PurgeResult),
  }),
};
