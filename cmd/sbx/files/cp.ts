import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { download } from "./cp_download.ts";
import { Remote } from "./cp_remote.ts";
import { upload } from "./cp_upload.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { usageError } from "../usage.ts";

export const command: Command = {
  name: "cp",
  usage: "SRC DST [--json]",
  summary: "copy files and folders to or from a VM; one side is NAME:path",
  notes: [
    "A path is below the workspace, or absolute: any path of the VM, while it runs. The rules on import and export are asked about each file, and each is on record with its size and hash.",
    "Files of any size and links. What is there is replaced, file by file, and said. A link that leads out of the copied folder is skipped; of a repository, configuration and hooks stay behind (sbx pull takes its work). The exit code is 1 if a file was skipped.",
  ],
  options: [JSON_OPTION],
  words: { min: 2, max: 2 },
  completesNames: true,
  examples: [
    "sbx cp notes.txt demo:",
    "sbx cp src demo:project/src",
    "sbx cp demo:result.json .",
    "sbx cp demo:/root/project/dist .",
  ],
  async run(args) {
    const [from, to] = args.words.map(parseSide);
    if ((from.vm === undefined) === (to.vm === undefined)) {
      throw usageError(
        command,
        "exactly one of SRC and DST must be in a VM",
        "write NAME:path for the side in the VM; a local path with a colon begins with ./",
      );
    }
    const client = await connect();
    const remote = new Remote(client, segment((from.vm ?? to.vm)!));
    const { copied, skipped, behind = [] } = from.vm === undefined
      ? await upload(remote, from.path, to.path)
      : await download(remote, from.path, to.path);
    if (args.has("json")) await printJson({ copied, left_out: skipped, left_behind: behind });
    else {
      const total = `copied ${count(copied.length, "file")}`;
      await print(skipped.length === 0 ? total : `${total}, skipped ${skipped.length}`);
    }
    return skipped.length === 0 ? 0 : 1;
  },
};

/** Parses one side of a copy. A path with a slash before its first colon is local. */
function parseSide(text: string): { vm?: string; path: string } {
  const [, vm, path] = /^([A-Za-z0-9][A-Za-z0-9_-]*):([^]*)$/.exec(text) ?? [];
  return vm === undefined ? { path: text } : { vm, path };
}
