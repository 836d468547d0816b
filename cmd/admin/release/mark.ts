import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { markRelease, Workspace } from "../../../lib/publish/mod.ts";
import type { Status } from "../../../lib/release/mod.ts";
import { PROGRAM } from "../program.ts";
import { CHANNEL_OPTION, channelOf } from "./options.ts";

/** `sbx-admin release support`, `deprecate` and `revoke`: a status moves forward. */
export const releaseSupport = mark("support", "supported", "say of a release that newer ones are preferred");
export const releaseDeprecate = mark(
  "deprecate",
  "deprecated",
  "say of a release that it goes: hosts that run it are told",
);
export const releaseRevoke = mark(
  "revoke",
  "revoked",
  "withdraw a release: nothing that only it contains installs or starts any more",
);

function mark(word: string, status: Status, summary: string): Command {
  return {
    name: `release ${word}`,
    usage: "DIR VERSION [--channel ID] [--json]",
    summary,
    notes: ["A status never moves back. Sign and publish afterwards."],
    options: [CHANNEL_OPTION, JSON_OPTION],
    words: { min: 2, max: 2 },
    examples: [`sbx-admin release ${word} releases 1.2.0`],
    async run(args) {
      const [dir, version] = args.words;
      const channel = channelOf(args);
      await Workspace.change(dir, (workspace) => markRelease(workspace, channel, version, status));
      if (args.has("json")) await printJson({ channel, version, status });
      else {await print(
          `${channel} ${version} is ${status} once it is signed and published: ${PROGRAM} release sign ${dir}`,
        );}
      return 0;
    },
  };
}
