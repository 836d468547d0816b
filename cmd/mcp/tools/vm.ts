/** Tools that create, control and delete VMs. */
import { z } from "zod";
import {
  CreateRequest,
  FORK_COUNT_MAX,
  ForkRequest,
  ForkResult,
  ProfileList,
  VmInfo,
  VmSummary,
} from "../../../lib/client/api/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Context, type Tool, tool, vm } from "../tool.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

const { name, profile_id, cpus, ram_mb, disk_gb, arch, env, from } = CreateRequest.shape;
const newName = name.describe("letters, digits, _ and -, at most 64; default: a generated name");

/** Acts on a VM that the agent may touch. */
async function act(
  { client, vm }: Context,
  idOrName: string,
  action: string,
  json?: unknown,
): Promise<VmSummary> {
  return await client.json("POST", `/vms/${segment(await vm(idOrName))}/${action}`, { json });
}

export const VM_TOOLS: Tool[] = [
  tool({
    name: "create",
    title: "Create a VM",
    description:
      "Creates a Linux VM without a network card and boots it in the background. The policy of its profile decides on all " +
      "access outside the VM. Returns at once with status Booting; `exec` waits for the boot. The folder /workspace is " +
      "shared with the host (`write_file`, `read_file`). Use `run` for a single program in a temporary VM. Delete the VM " +
      "when you are done.",
    input: z.strictObject({
      name: newName,
      profile_id: profile_id.describe("profile with the VM's policy and image; default: code"),
      cpus: cpus.describe("8, or as many as the host has; default: from the settings"),
      ram_mb: ram_mb.describe(
        "MiB, at least 256; 16384, or as much as the host has; default: from the settings",
      ),
      disk_gb: disk_gb.describe("GiB of disk, sparse on the host; default: from the settings"),
      arch,
      persistent: z.boolean().default(true).describe("false: the VM is deleted when it stops"),
      env: env.describe(
        "environment variables of all programs in the VM, of common names such as NODE_ENV, TZ or APP_…; others are " +
          "refused and belong into env of `exec`; never put secrets here",
      ),
      from: from.describe("stopped VM whose disk and workspace are copied"),
    }),
    output: VmSummary,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: async ({ from, ...json }, { client, vms, vm }) => {
      requireVmEnv(json.env);
      const source = from === undefined ? undefined : await vm(from);
      const made = await client.json<VmSummary>("POST", "/vms/create", { json: { ...json, from: source } });
      vms.add(made);
      return made;
    },
  }),
  tool({
    name: "list",
    title: "List VMs",
    description:
      "Lists the VMs made with these tools, with their status and the actions available now (available_actions).",
    input: z.strictObject({}),
    output: z.object({ vms: z.array(VmSummary) }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (_, { client, vms }) => {
      const { vms: every } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
      return { vms: every.filter(({ id }) => vms.has(id)) };
    },
  }),
  tool({
    name: "info",
    title: "Show a VM",
    description:
      "Returns the details of one VM: status, size, session, boot stages, the path of its workspace on the host, and " +
      "last_error when it is Defunct (then check `logs`).",
    input: z.strictObject({ vm }),
    output: VmInfo,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (input, { client, vm }) =>
      await client.json("GET", `/vms/${segment(await vm(input.vm))}/info`),
  }),
  tool({
    name: "start",
    title: "Start a stopped VM",
    description: "Boots a Stopped VM. Returns at once; `exec` waits for the boot.",
    input: z.strictObject({ vm }),
    output: VmSummary,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: ({ vm }, context) => act(context, vm, "start"),
  }),
  tool({
    name: "stop",
    title: "Stop a VM",
    description:
      "Ends every program in the VM and shuts it down. A persistent VM keeps its disk and workspace for `start`; any other " +
      "VM is deleted.",
    input: z.strictObject({ vm }),
    output: VmSummary,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: ({ vm }, context) => act(context, vm, "stop"),
  }),
  tool({
    name: "fork",
    title: "Copy a VM",
    description:
      "Creates new VMs from one moment of another one: of a running VM with its memory and programs, of a stopped one with " +
      "its disk and workspace. To try something without risking the original, or several approaches at once. A running VM " +
      "stands still for a moment, and its connections are reset.",
    input: z.strictObject({
      vm,
      name: newName,
      count: ForkRequest.shape.count.describe(`number of new VMs, 1 to ${FORK_COUNT_MAX}; default 1`),
      at: ForkRequest.shape.at,
    }),
    output: ForkResult,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: async ({ vm, ...json }, { client, vms, vm: find }) => {
      const path = `/vms/${segment(await find(vm))}/fork`;
      const made = await client.json<ForkResult>("POST", path, { json });
      for (const each of made.vms) vms.add(each);
      return made;
    },
  }),
  tool({
    name: "delete",
    title: "Delete a VM",
    description:
      "Deletes a VM with its disk and workspace, also while it is running. A person can bring it back within a day (sbx " +
      "restore); the record of its session is kept (`events` with its session id).",
    input: z.strictObject({
      vm,
      force: z.boolean().default(false).describe("also with work on a repository that no person has pulled"),
    }),
    output: z.object({ id: z.string(), deleted: z.literal(true), restorable_until: z.string().optional() }),
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: async (input, { client, vm }) =>
      await client.json(
        "DELETE",
        `/vms/${segment(await vm(input.vm))}/delete${input.force ? "?force=true" : ""}`,
      ),
  }),
  tool({
    name: "profiles",
    title: "List profiles",
    description:
      "Lists the profiles that `create` and `run` take as profile_id. A profile decides on a VM's policy, image and MCP " +
      "servers; only people change profiles.",
    input: z.strictObject({}),
    output: ProfileList,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: (_, { client }) => client.json("GET", "/profiles/list"),
  }),
];

/** Names that may be set, and endings and beginnings of such names. */
const NAMES = new Set([
  ...["CI", "COLUMNS", "DEBUG", "EDITOR", "FORCE_COLOR", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "PAGER"],
  ...["PORT", "HOST", "TERM", "TZ", "VERBOSE", "VISUAL", "COLORTERM", "CLICOLOR", "SOURCE_DATE_EPOCH"],
  ...[
    "NODE_ENV",
    "DENO_ENV",
    "BUN_ENV",
    "RAILS_ENV",
    "RACK_ENV",
    "APP_ENV",
    "FLASK_ENV",
    "MIX_ENV",
    "GO_ENV",
  ],
  ...["LOG_LEVEL", "RUST_LOG", "RUST_BACKTRACE", "GOMAXPROCS", "CARGO_TERM_COLOR"],
  ...["PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "UV_THREADPOOL_SIZE", "OMP_NUM_THREADS"],
]);
const PATTERN =
  /^(?:LC_[A-Z]+|(?:APP|DEMO|MY|TEST|VITE|NEXT_PUBLIC|REACT_APP|DATABASE|DB|POSTGRES|PG|MYSQL|REDIS)_[A-Z0-9_]*)$/;
/** Reasons by beginnings, for names that are refused with more than "not on the list". */
const REASONS: [RegExp, string][] = [
  [/^SBX_/i, "it steers sbx itself, on the host too"],
  [/^LD_|^DYLD_|^GLIBC_/i, "it changes which libraries every program of the VM loads"],
  [/_proxy$/i, "it leads the VM's requests elsewhere"],
  [
    /(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?)(?:_|$)/i,
    "credentials stay on the host, and the VM gets refs",
  ],
];

/**
 * Checks the names of a VM's environment that an agent of the host gave.
 *
 * @throws {SbxError} `mcp.env_refused`: names that are not allowed, each with its reason
 */
export function requireVmEnv(env: Record<string, string> | undefined): void {
  const refused = Object.keys(env ?? {}).flatMap((name) => {
    const shown = JSON.stringify(name).slice(1, -1);
    const reason = REASONS.find(([pattern]) => pattern.test(name))?.[1];
    if (reason !== undefined) return [`${shown}: ${reason}`];
    return NAMES.has(name) || PATTERN.test(name)
      ? []
      : [`${shown}: not on the list of names that agents may set`];
  });
  if (refused.length === 0) return;
  throw new SbxError("mcp.env_refused", `environment of the VM refused: ${refused.join("; ")}`, {
    hint: "give variables to single programs: env of exec and start_job",
  });
}
