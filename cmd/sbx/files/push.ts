import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { BRING_OPTIONS, bringFolder, formatBrought } from "./repository.ts";

export const command: Command = {
  name: "push",
  usage: "DIR NAME [OPTIONS]",
  summary: "bring a git repository or a folder into a VM",
  notes: [
    "A repository goes in with history and uncommitted changes, without ignored files (.gitignore, .sbxignore). A second push updates the VM, unless it has work of its own.",
  ],
  options: [...BRING_OPTIONS, JSON_OPTION],
  words: { min: 2, max: 2 },
  completes: ["vms"],
  examples: ["sbx push . demo", "sbx push ~/project demo --to /workspace/project"],
  async run(args) {
    const [dir, name] = args.words;
    const brought = await bringFolder(await connect(), name, dir, args);
    await (args.has("json") ? printJson(brought) : print(formatBrought(brought)));
    return 0;
  },
};
