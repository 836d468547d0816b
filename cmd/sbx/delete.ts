import { segment } from "../../lib/client/mod.ts";
import { asSbxError } from "../../lib/error/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { print, printError, printJson } from "./output.ts";

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
    const deleted: string[] = [];
    // One that cannot be removed does not keep the others.
    for (const name of given.words) {
      try {
        await client.json("DELETE", `/vms/${segment(name)}/delete`);
        deleted.push(name);
        if (!json) await print(`deleted ${name}`);
      } catch (error) {
        printError(asSbxError(error, `deleting ${name}`), json);
      }
    }
    if (json) await printJson({ deleted });
    return deleted.length === given.words.length ? 0 : 1;
  },
};
