import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { listMachines } from "../../../lib/fleet/receive/mod.ts";

/** `sbx-admin fleet machines`: the machines of a store. */
export const fleetMachines: Command = {
  name: "fleet machines",
  usage: "DIR [--json]",
  summary: "list the enrolled machines",
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet machines /srv/fleet"],
  async run(args) {
    const machines = await listMachines(args.words[0]);
    if (args.has("json")) await printJson({ machines });
    else if (machines.length === 0) await print("no machines");
    else {
      for (const { machine_id, name, team, enrolled_at } of machines) {
        await print(
          `${machine_id.slice(0, 16)}  ${enrolled_at}  ${name}${team === undefined ? "" : ` (${team})`}`,
        );
      }
    }
    return 0;
  },
};
