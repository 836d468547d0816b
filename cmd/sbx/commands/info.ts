import type { VmInfo } from "../../../lib/api/vm.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { counted, pairs, print, printJson, stageTable } from "../output.ts";

export const command: Command = {
  name: "info",
  usage: "NAME [--json]",
  summary: "all about one VM",
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx info demo", "sbx info demo --json"],
  async run(given) {
    const client = await connect();
    const info = await client.json<VmInfo>("GET", `/vms/${segment(given.words[0])}/info`);
    await (given.on("json") ? printJson(info) : print(human(info)));
    return 0;
  },
};

function human(info: VmInfo): string {
  const features = Object.entries(info.features).filter(([, has]) => has).map(([name]) => name);
  const lines = pairs([
    ["name", info.name],
    ["id", info.id],
    ["status", info.status],
    ["error", info.last_error],
    ["profile", info.profile_id],
    ["persistent", info.persistent ? "yes" : "no"],
    ["created", info.created_at],
    ["session", info.session_id],
    ["size", `${counted(info.cpus, "CPU")}, ${info.ram_mb} MB`],
    ["hypervisor", [info.hypervisor, info.accelerator].filter(Boolean).join(", ")],
    ["features", features.join(" ") || "none"],
    ["pid", info.pid?.toString()],
    ["workspace", info.workspace],
    ["logs", info.logs],
    ["actions", info.available_actions.join(" ")],
  ]);
  return info.boot_stages.length === 0 ? lines : `${lines}\n\n${stageTable(info.boot_stages)}`;
}
