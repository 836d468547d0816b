import type { VmSummary } from "../../../lib/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { table } from "../output.ts";

export const command: Command = {
  name: "list",
  usage: "[--json]",
  summary: "list the VMs with their states and possible actions",
  options: [JSON_OPTION],
  examples: ["sbx list", "sbx list --json"],
  async run(args) {
    const client = await connect();
    const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
    if (args.has("json")) await printJson({ vms });
    else if (vms.length === 0) {
      await print("no VMs; sbx create NAME creates one, sbx run -- CMD runs a program in a temporary one");
    } else await print(table(["NAME", "STATUS", "PROFILE", "PERSISTENT", "ACTIONS"], vms.map(row)));
    return 0;
  },
};

function row({ name, status, profile_id, persistent, available_actions }: VmSummary): string[] {
  return [name, status, profile_id, persistent ? "yes" : "no", available_actions.join(" ")];
}
