import type { VmSummary } from "../../../lib/api/vm.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "list",
  usage: "[--json]",
  summary: "every VM, its state, and what may be done with it",
  options: [JSON_OPTION],
  examples: ["sbx list", "sbx list --json"],
  async run(given) {
    const client = await connect();
    const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
    if (given.on("json")) await printJson({ vms });
    else if (vms.length === 0) {
      await print("no VMs: sbx create NAME makes one, sbx run -- CMD uses one for one program");
    } else await print(table(["NAME", "STATUS", "PROFILE", "PERSISTENT", "ACTIONS"], vms.map(row)));
    return 0;
  },
};

function row({ name, status, profile_id, persistent, available_actions }: VmSummary): string[] {
  return [name, status, profile_id, persistent ? "yes" : "no", available_actions.join(" ")];
}
