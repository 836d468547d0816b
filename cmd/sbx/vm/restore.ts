import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";

export const command: Command = {
  name: "restore",
  usage: "NAME|ID [NEW] [--json]",
  summary: "bring a deleted VM back, as it was; NEW renames it",
  notes: [
    "Deleted VMs are kept for a day where the disk has room. Of several with the same name, the one deleted last comes back.",
  ],
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  completes: ["deleted vms", []],
  examples: ["sbx restore demo", "sbx restore demo old-demo"],
  async run(args) {
    const [vm, name] = args.words;
    const client = await connect();
    const restored = await client.json<VmSummary>("POST", `/vms/${segment(vm)}/restore`, { json: { name } });
    if (args.has("json")) await printJson(restored);
    else await print(`restored ${restored.name}: ${restored.status}`);
    return 0;
  },
};
