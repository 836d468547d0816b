import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";

export const command: Command = {
  name: "save",
  usage: "NAME [NEW] [--json]",
  summary: "keep a VM that would be removed when it stops",
  notes: ["Its programs keep running. NEW renames it."],
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  completes: ["vms", []],
  examples: ["sbx save vm-1", "sbx save vm-1 dev"],
  async run(args) {
    const [name, newName] = args.words;
    const client = await connect();
    const json = { name: newName };
    const saved = await client.json<VmSummary>("POST", `/vms/${segment(name)}/save`, { json });
    await (args.has("json") ? printJson(saved) : print(`saved ${saved.name}`));
    return 0;
  },
};
