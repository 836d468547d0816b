import type { SetRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { DISK_OPTION, diskOf, formatRam, SIZE_OPTIONS, sizeOf } from "./new_vm.ts";

export const command: Command = {
  name: "set",
  usage: "NAME [--cpus N] [--ram SIZE] [--disk GB] [--json]",
  summary: "change the CPUs, memory or disk of a stopped VM",
  notes: ["They apply from its next start. A disk grows and never shrinks."],
  options: [
    ...SIZE_OPTIONS.filter(({ name }) => name === "cpus" || name === "ram"),
    DISK_OPTION,
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx set dev --disk 40", "sbx set dev --cpus 4 --ram 8G"],
  async run(args) {
    const { cpus, ram_mb } = sizeOf(args);
    const json: SetRequest = { cpus, ram_mb, disk_gb: diskOf(args) };
    if (Object.values(json).every((value) => value === undefined)) {
      throw usageError(command, "nothing to change: give --cpus, --ram or --disk");
    }
    const client = await connect();
    const vm = await client.json<VmSummary>("POST", `/vms/${segment(args.words[0])}/set`, { json });
    const size = [count(vm.cpus, "CPU"), formatRam(vm.ram_mb), `${vm.disk.size_gb} GiB of disk`];
    if (args.has("json")) await printJson(vm);
    else await print(`${vm.name}: ${size.join(", ")} from its next start: sbx start ${vm.name}`);
    return 0;
  },
};
