import type { CreateRequest, VmInfo, VmSummary } from "../../../lib/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { waitUntilRunning } from "../boot.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { parseEnv } from "../program.ts";
import { formatImage } from "./info.ts";
import { BRING_OPTIONS, bringFolder, formatBrought, FROM_DIR_OPTIONS } from "../repository.ts";
import { SIZE_OPTIONS, sizeOf } from "../size.ts";
import { usageError } from "../usage.ts";

export const command: Command = {
  name: "create",
  usage: "NAME [OPTIONS]",
  summary: "create a VM and boot it",
  options: [
    ...SIZE_OPTIONS,
    { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of the VM" },
    { name: "rm", about: "remove the VM when it stops (not persistent)" },
    { name: "from", value: "VM", about: "copy the disk and workspace of a stopped VM" },
    ...FROM_DIR_OPTIONS,
    ...BRING_OPTIONS,
    { name: "no-wait", about: "do not wait until the VM is running" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: [
    "sbx create demo",
    "sbx create big --cpus 4 --ram 4096",
    "sbx create copy --from demo",
    "sbx create demo --from-dir .",
  ],
  async run(args) {
    const [name] = args.words;
    const json: CreateRequest = {
      name,
      ...sizeOf(args),
      persistent: !args.has("rm"),
      env: parseEnv(command, args.list("env")),
      from: args.text("from"),
    };
    const dir = args.text("from-dir");
    if (dir !== undefined && args.has("no-wait")) {
      throw usageError(command, "--from-dir needs a VM that is running");
    }
    const client = await connect();
    const created = await client.json<VmSummary>("POST", "/vms/create", { json });
    if (!args.has("no-wait")) await waitUntilRunning(client, created);
    const brought = dir === undefined ? undefined : await bringFolder(client, created.name, dir, args);
    const info = await client.json<VmInfo>("GET", `/vms/${created.id}/info`);
    if (args.has("json")) await printJson(brought ? { ...info, brought_in: brought } : info);
    else await print([formatCreated(info), ...brought ? [formatBrought(brought)] : []].join("\n"));
    return 0;
  },
};

function formatCreated(info: VmInfo): string {
  const { name, status, hypervisor, accelerator } = info;
  const image = formatImage(info);
  const facts = [hypervisor, accelerator, image && `image ${image}`];
  return `${name}: ${status} (${facts.filter(Boolean).join(", ")})\n` +
    `sbx exec ${name} -- CMD… runs a program in it, sbx shell ${name} opens a terminal`;
}
