import type { CreateRequest, VmInfo, VmSummary } from "../../../lib/api/vm.ts";
import { untilRunning } from "../boot.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../output.ts";
import { envOf } from "../program.ts";
import { SIZE_OPTIONS, sizeOf } from "../size.ts";

export const command: Command = {
  name: "create",
  usage: "NAME [OPTIONS]",
  summary: "make a VM and boot it",
  options: [
    ...SIZE_OPTIONS,
    { name: "env", short: "e", value: "K=V", many: true, about: "set an environment variable of the VM" },
    { name: "rm", about: "not persistent: it is removed when it stops" },
    { name: "from", value: "VM", about: "begin with the disk and workspace of a stopped VM" },
    { name: "no-wait", about: "do not wait until it runs" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx create demo", "sbx create big --cpus 4 --ram 4096", "sbx create copy --from demo"],
  async run(given) {
    const [name] = given.words;
    const json: CreateRequest = {
      name,
      ...sizeOf(given),
      persistent: !given.on("rm"),
      env: envOf(command, given.list("env")),
      from: given.text("from"),
    };
    const client = await connect();
    const made = await client.json<VmSummary>("POST", "/vms/create", { json });
    if (!given.on("no-wait")) await untilRunning(client, made);
    const info = await client.json<VmInfo>("GET", `/vms/${made.id}/info`);
    await (given.on("json") ? printJson(info) : print(human(info)));
    return 0;
  },
};

function human({ name, status, hypervisor, accelerator }: VmInfo): string {
  return `${name}: ${status} (${[hypervisor, accelerator].filter(Boolean).join(", ")})\n` +
    `sbx exec ${name} -- CMD… runs a program in it, sbx shell ${name} opens a terminal`;
}
