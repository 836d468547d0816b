import { segment } from "../../lib/client/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { eachVm } from "./each_vm.ts";
import { print, printJson } from "./output.ts";

export const command: Command = {
  name: "resume",
  usage: "NAME… [--json]",
  summary: "let paused VMs go on",
  options: [JSON_OPTION],
  words: { min: 1, max: Infinity },
  completesNames: true,
  examples: ["sbx resume demo"],
  async run(given) {
    const json = given.on("json");
    const client = await connect();
    const resumed = await eachVm(given.words, "resuming", json, async (name) => {
      await client.json("POST", `/vms/${segment(name)}/resume`);
      if (!json) await print(`resumed ${name}`);
    });
    if (json) await printJson({ resumed });
    return resumed.length === given.words.length ? 0 : 1;
  },
};
