import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { changesToPull, noteUntaken, pullWork, requireRepository } from "../../../lib/repo/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { formatNotable } from "./diff_text.ts";
import { collectWork, formatPulled } from "./repository.ts";

export const command: Command = {
  name: "pull",
  usage: "NAME [REPOSITORY…] [PATH…] [--branch B]",
  summary: "take a VM's work as a branch of your repository",
  notes: [
    "Takes changes to files that sbx push brought in; of several repositories each as a branch of its own, or only the ones named. There a PATH begins with the name of its repository.",
    "Into a repository only objects and a branch are written, after checks; uncommitted changes become one more commit on that branch. With PATH, only those paths, as one commit.",
    "Into a folder without a repository, files that you changed too stay as they are. The exit code is 1 if there were any.",
  ],
  options: [
    { name: "branch", value: "B", about: "name of the branch; default sbx/NAME" },
    JSON_OPTION,
  ],
  words: { min: 1, max: Infinity },
  completes: ["vms"],
  examples: ["sbx pull demo", "sbx pull demo src/main.c --branch fix", "sbx pull demo web"],
  async run(args) {
    const [name, ...paths] = args.words;
    const client = await connect();
    const json = { reason: "before sbx pull" };
    await client.json("POST", `/vms/${segment(name)}/snapshots/protect`, { json });
    await using work = await collectWork(client, name, paths);
    const branch = args.text("branch");
    if (branch !== undefined) requireRepository(work, "--branch");
    const changes = await changesToPull(work, paths);
    const pulled = await pullWork(work, { branch, paths });
    await noteUntaken(work);
    for (const line of formatNotable(changes)) note(line);
    await (args.has("json") ? printJson(pulled) : print(formatPulled(pulled, work)));
    return pulled.folder && pulled.folder.conflicts.length > 0 ? 1 : 0;
  },
};
