import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { applyWork, changesToPull, noteUntaken, pullWork, requireRepository } from "../../../lib/repo/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { formatNotable } from "./diff_text.ts";
import { collectWork, describePulled, keepState } from "./repository.ts";

export const command: Command = {
  name: "pull",
  usage: "NAME [REPOSITORY…] [PATH…] [--branch B] [--squash] [--message TEXT] [--apply] [--json]",
  summary: "take a VM's work as a branch of your repository",
  notes: [
    "Takes changes to files that sbx push brought in; of several repositories each as a branch of its own, or only the ones named. There a PATH begins with the name of its repository.",
    "Into a repository only objects and a branch are written, after checks; uncommitted changes become one more commit on that branch. With PATH, only those paths, as one commit.",
    "Into a folder without a repository, files that you changed too stay as they are. The exit code is 1 if there were any.",
  ],
  options: [
    { name: "branch", value: "B", about: "name of the branch; default sbx/NAME" },
    {
      name: "message",
      short: "m",
      value: "TEXT",
      about: "message of the commit that sbx makes, with you as its author; commits of the VM keep theirs",
    },
    { name: "squash", about: "one commit in place of the VM's commits" },
    { name: "apply", about: "to your files, without a commit; refused if it would overwrite your changes" },
    JSON_OPTION,
  ],
  words: { min: 1, max: Infinity },
  completes: ["vms", []],
  examples: ["sbx pull demo", "sbx pull demo src/main.c --branch fix", "sbx pull demo web"],
  async run(args) {
    const [name, ...paths] = args.words;
    const [message, isApplied, isSquashed] = [args.text("message"), args.has("apply"), args.has("squash")];
    if (isApplied && (isSquashed || message !== undefined || args.has("branch"))) {
      throw usageError(command, "--apply makes no commit: it excludes --branch, --message and --squash");
    }
    if (message?.trim() === "") throw usageError(command, "--message needs a text");
    const client = await connect();
    const json = { reason: "before sbx pull" };
    await client.json("POST", `/vms/${segment(name)}/snapshots/protect`, { json });
    await keepState(client, name, json.reason);
    await using work = await collectWork(client, name, paths);
    const branch = args.text("branch");
    if (branch !== undefined) requireRepository(work, "--branch");
    if (message !== undefined) requireRepository(work, "--message");
    const changes = await changesToPull(work, paths);
    const pulled = isApplied
      ? await applyWork(work, paths)
      : await pullWork(work, { branch, paths, message, isSquashed });
    await noteUntaken(work);
    for (const line of formatNotable(changes)) note(line);
    await (args.has("json") ? printJson(pulled) : print(await describePulled(pulled, work)));
    return pulled.folder && pulled.folder.conflicts.length > 0 ? 1 : 0;
  },
};
