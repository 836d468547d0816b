import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { checkWorkspace } from "../../../lib/publish/mod.ts";
import { KEYS_OPTION, publisherKeys, verifying, withProgress } from "./options.ts";
import { printTreeReport } from "./report.ts";

/** `sbx-admin release check`: a workspace before it is published. */
export const releaseCheck: Command = {
  name: "release check",
  usage: "DIR [--keys DIR] [--json]",
  summary: "check a workspace: signatures, digests and files of every release",
  notes: ["The exit code is 1 if something is not signed or does not match."],
  options: [KEYS_OPTION, JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin release check releases"],
  async run(args) {
    const keys = verifying(await publisherKeys(args));
    const report = await withProgress(["hash"], (progress) => checkWorkspace(args.words[0], keys, progress));
    return await printTreeReport(report, args.has("json"));
  },
};
