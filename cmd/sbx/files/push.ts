import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { BRING_OPTIONS, bringFolder, formatBrought } from "./repository.ts";

export const command: Command = {
  name: "push",
  usage: "DIR NAME [OPTIONS]",
  summary: "bring a git repository or a folder into a VM",
  notes: [
    "DIR is one of any number of repositories and folders of the VM. A repository goes in with history and uncommitted changes, without ignored files (.gitignore, .sbxignore). A second push updates the VM, unless it has work of its own.",
  ],
  options: [
    ...BRING_OPTIONS,
    { name: "read-only", about: "for reading: nothing of it comes back" },
    JSON_OPTION,
  ],
  words: { min: 2, max: 2 },
  completes: ["folders", "vms"],
  examples: [
    "sbx push . demo",
    "sbx push ~/project demo --to /workspace/project",
    "sbx push ../library demo --read-only",
  ],
  async run(args) {
    const [dir, name] = args.words;
    const how = { place: args.text("to"), isReadOnly: args.has("read-only") };
    const brought = await bringFolder(await connect(), name, dir, args, how);
    await (args.has("json") ? printJson(brought) : print(formatBrought(brought)));
    return 0;
  },
};
