import type { DeletedVm, VmListed } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { connect } from "../connect.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { table } from "../output.ts";
import { formatDisk, formatRam } from "./new_vm.ts";
import { formatTime, formatUntaken } from "./work_text.ts";

export const command: Command = {
  name: "list",
  usage: "[--all | --deleted] [--json]",
  summary: "list the VMs with their states and possible actions",
  notes: ["ACTIVE is the last write to a VM's record, in local time; NOT PULLED is of the last comparison."],
  options: [
    {
      name: "all",
      short: "a",
      about: "also the VMs of stdio MCP servers, which end with the VM they belong to",
    },
    { name: "deleted", about: "the VMs that sbx restore brings back, and until when" },
    JSON_OPTION,
  ],
  examples: ["sbx list", "sbx list --all", "sbx list --deleted", "sbx list --json"],
  async run(args) {
    const client = await connect();
    const all = args.has("all");
    if (args.has("deleted")) {
      if (all) {
        throw new SbxError("usage.invalid", "--all and --deleted list different VMs", {
          hint: "give one of them",
        });
      }
      const { vms } = await client.json<{ vms: DeletedVm[] }>("GET", "/vms/deleted");
      if (args.has("json")) await printJson({ vms });
      else if (vms.length === 0) await print("no deleted VMs that can be restored");
      else await print(table(["NAME", "PROFILE", "DELETED", "KEPT UNTIL", "ID"], vms.map(deletedRow)));
      return 0;
    }
    const { vms } = await client.json<{ vms: VmListed[] }>("GET", `/vms/list${all ? "?all=true" : ""}`);
    if (args.has("json")) await printJson({ vms });
    else if (vms.length === 0) {
      await print("no VMs; sbx create NAME creates one, sbx run -- CMD runs a program in a temporary one");
    } else {
      const columns = COLUMNS.filter(({ if: isShown = () => true }) => isShown(vms, all));
      const rows = vms.map((vm) => columns.map(({ cell }) => cell(vm, vms)));
      await print(table(columns.map(({ name }) => name), rows));
    }
    return 0;
  },
};

function deletedRow({ name, profile_id, deleted_at, expires_at, id }: DeletedVm): string[] {
  const [deleted, until] = [deleted_at, expires_at].map((time) => time.slice(0, 19).replace("T", " "));
  return [name, profile_id, deleted, until, id];
}

/** The folder that a VM works on, and the number of others whose work comes back too: `/home/ada/web +1`. */
export function formatFolder(
  { folder, repositories = [] }: Pick<VmListed, "folder" | "repositories">,
): string {
  if (!folder) return "";
  const others = repositories.filter(({ dir, is_read_only }) => dir !== folder.dir && !is_read_only).length;
  return plain(folder.dir) + (others > 0 ? ` +${others}` : "");
}

/** True where a VM has a folder of the host. */
const hasFolders = (vms: VmListed[]) => vms.some(({ folder }) => folder !== undefined);

/** Columns of the list; some are there only if a VM has something to show in them. */
const COLUMNS: {
  name: string;
  cell(vm: VmListed, vms: VmListed[]): string;
  if?(vms: VmListed[], all: boolean): boolean;
}[] = [
  { name: "NAME", cell: ({ name }) => name },
  {
    name: "STATUS",
    cell: ({ status, response, unhealthy, old_program }) =>
      [
        status,
        ...response ? ["held"] : [],
        ...unhealthy ? ["unhealthy"] : [],
        ...old_program ? ["old program"] : [],
      ].join(", "),
  },
  { name: "PROFILE", cell: ({ profile_id }) => profile_id },
  {
    name: "IMAGE",
    cell: ({ image_reference }) => image_reference ?? "",
    if: (vms) => vms.some(({ image_reference }) => image_reference !== undefined),
  },
  { name: "FOLDER", cell: formatFolder, if: hasFolders },
  {
    name: "NOT PULLED",
    cell: ({ folder }) => formatUntaken(folder),
    if: hasFolders,
  },
  {
    name: "ACTIVE",
    cell: ({ active_at }) => active_at ? formatTime(active_at) : "",
    if: (vms) => vms.some(({ active_at }) => active_at !== undefined),
  },
  { name: "CPUS", cell: ({ cpus }) => String(cpus) },
  { name: "MEMORY", cell: ({ ram_mb }) => formatRam(ram_mb) },
  { name: "DISK", cell: formatDisk },
  { name: "PERSISTENT", cell: ({ persistent }) => persistent ? "yes" : "no" },
  { name: "ACTIONS", cell: ({ available_actions }) => available_actions.join(" ") },
  { name: "SERVER OF", cell: ownerOf, if: (_, all) => all },
];

/** The MCP server of a VM, and its VM. */
function ownerOf({ parent }: VmListed, vms: VmListed[]): string {
  const owner = vms.find(({ id }) => id === parent?.id);
  return parent ? `${parent.server} of ${owner?.name ?? parent.id}` : "";
}
