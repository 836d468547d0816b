import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { stageRelease, Workspace } from "../../../lib/publish/mod.ts";
import { describeStage } from "../../../lib/release/mod.ts";
import { PROGRAM } from "../program.ts";
import { CHANNEL_OPTION, channelOf } from "./options.ts";

/** `sbx-admin release stage`: the machines that a release is for. */
export const releaseStage: Command = {
  name: "release stage",
  usage: "DIR VERSION [--percent N] [--label NAME]… [--channel ID] [--json]",
  summary: "offer a release to a part of the machines; without options to all",
  notes: [
    "Sign and publish afterwards. A machine that has the release keeps it when the part shrinks: release revoke takes it back.",
  ],
  options: [
    { name: "percent", value: "N", about: "of the machines, always the same ones; default 100" },
    { name: "label", value: "NAME", many: true, about: "only machines with this label in their corp.toml" },
    CHANNEL_OPTION,
    JSON_OPTION,
  ],
  words: { min: 2, max: 2 },
  examples: ["sbx-admin release stage releases 1.2.0 --channel fleet --percent 10 --label canary"],
  async run(args) {
    const [dir, version] = args.words;
    const channel = channelOf(args);
    const percent = args.number("percent", { min: 0, max: 100 }) ?? 100;
    const labels = args.list("label");
    const stage = percent === 100 && labels.length === 0
      ? undefined
      : { percent, ...(labels.length > 0 && { labels }) };
    await Workspace.change(dir, (workspace) => stageRelease(workspace, channel, version, stage));
    if (args.has("json")) await printJson({ channel, version, stage: stage ?? null });
    else {
      const part = stage ? describeStage(stage) : "all machines";
      await print(
        `${channel} ${version} is for ${part} once it is signed and published: ${PROGRAM} release sign ${dir}`,
      );
    }
    return 0;
  },
};
