import type { ForkRequest, ForkResult, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { waitUntilRunning } from "./new_vm.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";

/** As {@linkcode ForkRequest} has it, whose module would take half of the command's time to load. */
const COUNT_MAX = 16;

/** Id of a snapshot, or number of a state. */
const POINT = /^(s[0-9a-f]{8}|[1-9][0-9]{0,8})$/;

export const command: Command = {
  name: "fork",
  usage: "NAME [NEW] [-n COUNT] [--at POINT] [--no-wait] [--json]",
  summary: "make new VMs from one moment of a VM",
  notes: [
    "They get the memory, programs, disk and workspace of a running or suspended VM; of a stopped one, disk and workspace.",
    "With --at they have the workspace of a snapshot, or the repositories of a state, and all else as it is now, and boot: on every host, and while the VM runs, which stands still for the copy. sbx undo NAME --list shows both.",
  ],
  options: [
    {
      name: "count",
      short: "n",
      value: "COUNT",
      about: `number of new VMs, at most ${COUNT_MAX}; they are called NEW-1, NEW-2, …; default 1`,
    },
    {
      name: "at",
      value: "POINT",
      about: "at this snapshot of the workspace, or state of the repositories",
      completes: "points",
    },
    { name: "no-wait", about: "do not wait until the new VMs are running" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  completes: ["vms", []],
  examples: [
    "sbx fork demo",
    "sbx fork demo try -n 3",
    "sbx fork demo earlier --at s3f2a9c51",
    "sbx fork demo earlier --at 3",
  ],
  async run(args) {
    const [name, newName] = args.words;
    const count = args.number("count", { min: 1, max: COUNT_MAX });
    const at = args.text("at");
    if (at !== undefined && !POINT.test(at)) {
      throw usageError(
        command,
        `invalid value "${at}" of --at`,
        `sbx undo ${name} --list shows snapshots and states`,
      );
    }
    const json: ForkRequest = { name: newName, count, at };
    const client = await connect();
    const made = await client.json<ForkResult>("POST", `/vms/${segment(name)}/fork`, { json });
    const infos: VmInfo[] = [];
    for (const vm of made.vms) {
      if (!args.has("no-wait")) await waitUntilRunning(client, vm);
      infos.push(await client.json<VmInfo>("GET", `/vms/${vm.id}/info`));
    }
    if (args.has("json")) await printJson({ ...made, vms: infos });
    else {
      for (const info of infos) await print(`${info.name}: ${info.status}, forked from ${name}`);
      if (made.still_ms !== undefined) await print(`${name} was paused for ${Math.round(made.still_ms)} ms`);
    }
    return 0;
  },
};
