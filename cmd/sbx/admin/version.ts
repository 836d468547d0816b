import { print, printJson } from "../../../lib/base/print/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";

export const command: Command = {
  name: "version",
  usage: "[--json]",
  summary: "show the version of sbx",
  options: [JSON_OPTION],
  examples: ["sbx version", "sbx version --json"],
  async run(args) {
    const info = versionInfo();
    if (args.has("json")) await printJson(info);
    else await print(`sbx ${info.version} (${info.build_hash}) ${info.platform}, ${info.runtime}`);
    return 0;
  },
};
