/** Tools of a VM's life. */
import { z } from "zod";
import { CreateRequest, VmInfo, VmSummary } from "../../../lib/api/vm.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Tool, tool } from "../tool.ts";
import { vm } from "./common.ts";

const { name, profile_id, cpus, ram_mb, env, from } = CreateRequest.shape;
const newName = name.describe("letters, digits, _ and -, at most 64; absent: one is made up");

const post = async (client: Client, id: string, action: string, json?: unknown): Promise<VmSummary> =>
  await client.json("POST", `/vms/${segment(id)}/${action}`, { json });

export const VM_TOOLS: Tool[] = [
  tool({
    name: "create",
    title: "Create a VM",
    description:
      "Creates a Linux VM without a network card and boots it in the background: what it does outside is decided by the " +
      "policy of its profile. Answers at once with status Booting; `exec` waits for the boot. Its folder /workspace is " +
      "shared with the host (`write_file`, `read_file`). For one program in a VM that nobody needs afterwards use `run`. " +
      "Delete the VM when you are done.",
    input: z.strictObject({
      name: newName,
      profile_id: profile_id.describe("profile whose policy and image it has; absent: code"),
      cpus: cpus.describe("1 to 8; absent: the settings'"),
      ram_mb: ram_mb.describe("256 to 16384 MB; absent: the settings'"),
      persistent: z.boolean().default(true).describe("false: gone when it is stopped"),
      env: env.describe("environment variables of everything that runs in it; never put secrets here"),
      from: from.describe("a stopped VM whose disk and workspace it starts with"),
    }),
    output: VmSummary,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: (json, { client, signal }) => client.json("POST", "/vms/create", { json, signal }),
  }),
  tool({
    name: "list",
    title: "List VMs",
    description: "Every VM with its status, and what can be done with it now (available_actions).",
    input: z.strictObject({}),
    output: z.object({ vms: z.array(VmSummary) }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: (_, { client, signal }) => client.json("GET", "/vms/list", { signal }),
  }),
  tool({
    name: "info",
    title: "Show a VM",
    description:
      "All about one VM: status, size, session, boot stages, the host's path of its workspace, and last_error when it is " +
      "Defunct (then look at `logs`).",
    input: z.strictObject({ vm }),
    output: VmInfo,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: ({ vm }, { client, signal }) => client.json("GET", `/vms/${segment(vm)}/info`, { signal }),
  }),
  tool({
    name: "start",
    title: "Start a stopped VM",
    description: "Boots a VM that is Stopped. Answers at once; `exec` waits for the boot.",
    input: z.strictObject({ vm }),
    output: VmSummary,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: ({ vm }, { client }) => post(client, vm, "start"),
  }),
  tool({
    name: "stop",
    title: "Stop a VM",
    description:
      "Ends every program in the VM and shuts it down. A persistent VM keeps disk and workspace for `start`; one that is " +
      "not persistent is gone.",
    input: z.strictObject({ vm }),
    output: VmSummary,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: ({ vm }, { client }) => post(client, vm, "stop"),
  }),
  tool({
    name: "fork",
    title: "Copy a stopped VM",
    description:
      "Makes and boots a new VM that starts with the disk and workspace of a stopped one: to try something without " +
      "risking the original, or to try several ways at once.",
    input: z.strictObject({ vm, name: newName }),
    output: VmSummary,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: ({ vm, ...json }, { client }) => post(client, vm, "fork", json),
  }),
  tool({
    name: "delete",
    title: "Delete a VM",
    description:
      "Removes a VM with its disk and its workspace, whether it runs or not. Nothing brings them back; the record of what " +
      "it did stays (`events`, by its session id).",
    input: z.strictObject({ vm }),
    output: z.object({ id: z.string(), deleted: z.literal(true) }),
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: ({ vm }, { client }) => client.json("DELETE", `/vms/${segment(vm)}/delete`),
  }),
];
