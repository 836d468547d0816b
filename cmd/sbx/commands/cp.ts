import { segment } from "../../../lib/client/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { download } from "../cp_download.ts";
import { Remote } from "../cp_remote.ts";
import { upload } from "../cp_upload.ts";
import { print, printJson } from "../output.ts";

export const command: Command = {
  name: "cp",
  usage: "SRC DST [--json]",
  summary:
    "copy files and folders to or from a VM's workspace; one side is NAME:path; a file that goes in has at most 10 MiB",
  options: [JSON_OPTION],
  words: { min: 2, max: 2 },
  completesNames: true,
  examples: ["sbx cp notes.txt demo:", "sbx cp src demo:project/src", "sbx cp demo:result.json ."],
  async run(given) {
    const [from, to] = given.words.map(sideOf);
    if ((from.vm === undefined) === (to.vm === undefined)) {
      throw usage(
        command,
        "one of SRC and DST must be in a VM",
        "write it NAME:path, and a local one with a colon ./a:b",
      );
    }
    const client = await connect();
    const remote = new Remote(client, segment((from.vm ?? to.vm)!));
    const { copied, leftOut } = from.vm === undefined
      ? await upload(remote, from.path, to.path)
      : await download(remote, from.path, to.path);
    if (given.on("json")) await printJson({ copied, left_out: leftOut });
    else {
      const count = `copied ${copied.length} ${copied.length === 1 ? "file" : "files"}`;
      await print(leftOut.length === 0 ? count : `${count}, left out ${leftOut.length}`);
    }
    return leftOut.length === 0 ? 0 : 1;
  },
};

/** One side of a copy. A path with a slash before its first colon is local. */
function sideOf(text: string): { vm?: string; path: string } {
  const [, vm, path] = /^([A-Za-z0-9][A-Za-z0-9_-]*):([^]*)$/.exec(text) ?? [];
  return vm === undefined ? { path: text } : { vm, path };
}
