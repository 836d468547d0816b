import { segment } from "../../lib/client/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { eachVm } from "./each_vm.ts";
import { print, printJson } from "./output.ts";

export const command: Command = {
  name: "delete",
  usage: "NAME… [--json]",
  summary: "remove VMs, and what is on their disks",
  options: [JSON_OPTION],
  words: { min: 1, max: Infinity },
  completesNames: true,
  examples: ["sbx delete demo", "sbx delete demo copy"],
  async run(given) {
    const json = given.on("json");
    const client = await connect();
    const deleted = await eachVm(given.words, "deleting", json, async (name) => {
      await client.json("DELETE", `/vms/${segment(name)}/delete`);
      if (!json) await print(`deleted ${name}`);
    });
    if (json) await printJson({ deleted });
    return deleted.length === given.words.length ? 0 : 1;
  },
};
