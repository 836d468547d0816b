import { versionInfo } from "../../../lib/base/version/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";

export const command: Command = {
  name: "version",
  usage: "[--json]",
  summary: "what this program is",
  options: [JSON_OPTION],
  examples: ["sbx version", "sbx version --json"],
  run(given) {
    const info = versionInfo();
    if (given.on("json")) console.log(JSON.stringify(info, null, 2));
    else console.log(`sbx ${info.version} (${info.build_hash}) ${info.platform}, ${info.runtime}`);
    return Promise.resolve(0);
  },
};
