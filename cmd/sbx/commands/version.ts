import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";

export const command: Command = {
  name: "version",
  usage: "[--json]",
  summary: "show the version of sbx",
  options: [JSON_OPTION],
  examples: ["sbx version", "sbx version --json"],
  run(args) {
    const info = versionInfo();
    if (args.has("json")) console.log(JSON.stringify(info, null, 2));
    else console.log(`sbx ${info.version} (${info.build_hash}) ${info.platform}, ${info.runtime}`);
    return Promise.resolve(0);
  },
};
