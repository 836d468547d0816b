import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { lastAlive, listMachines } from "../../../lib/fleet/receive/mod.ts";

/** `sbx-admin fleet machines`: machines of a store, with the active sbx, bundle and configuration. */
export const fleetMachines: Command = {
  name: "fleet machines",
  usage: "DIR [--json]",
  summary: "list the enrolled machines, with the sbx, bundle and configuration that each has in force",
  notes: ["What a machine has in force is what it says, at most a minute old; --json has the hashes."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet machines /srv/fleet"],
  async run(args) {
    const [dir] = args.words;
    const machines = await Promise.all(
      (await listMachines(dir)).map(async (machine) => ({ ...machine, ...await lastAlive(dir, machine) })),
    );
    if (args.has("json")) await printJson({ machines });
    else if (machines.length === 0) await print("no machines");
    else {
      for (const { machine_id, name, team, enrolled_at, sbx, in_force } of machines) {
        const told = sbx === undefined
          ? "never heard of"
          : `sbx ${sbx}, ${in_force?.bundle === undefined ? "no bundle" : `bundle ${in_force.bundle}`}` +
            (in_force?.state === undefined || ["ok", "absent"].includes(in_force.state)
              ? ""
              : `, corp.toml is broken (${in_force.state})`);
        await print(
          `${machine_id.slice(0, 16)}  ${enrolled_at}  ${name}${
            team === undefined ? "" : ` (${team})`
          }  ${told}`,
        );
      }
    }
    return 0;
  },
};
