import { segment } from "../../lib/client/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { eachVm } from "./each_vm.ts";
import { print, printJson } from "./output.ts";

export const command: Command = {
  name: "pause",
  usage: "NAME… [--json]",
  summary: "let VMs stand still; they keep their memory",
  options: [JSON_OPTION],
  words: { min: 1, max: Infinity },
  completesNames: true,
  examples: ["sbx pause demo"],
  async run(given) {
    const json = given.on("json");
    const client = await connect();
    const paused = await eachVm(given.words, "pausing", json, async (name) => {
      await client.json("POST", `/vms/${segment(name)}/pause`);
      if (!json) await print(`paused ${name}`);
    });
    if (json) await printJson({ paused });
    return paused.length === given.words.length ? 0 : 1;
  },
};
