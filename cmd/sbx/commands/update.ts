import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { usageError } from "../usage.ts";

export const command: Command = {
  name: "update",
  usage: "--assets --manifest URL [--json]",
  summary: "download and verify the files that VMs boot from",
  options: [
    { name: "assets", about: "update the assets" },
    { name: "manifest", value: "URL", about: "manifest of the update: file://, https:// or http://" },
    JSON_OPTION,
  ],
  examples: ["sbx update --assets --manifest file:///srv/sbx/manifest.json"],
  async run(args) {
    const manifestUrl = args.text("manifest");
    if (!args.has("assets") || manifestUrl === undefined) {
      throw usageError(command, "missing options: sbx update needs --assets and --manifest URL");
    }
    const { installAssets } = await import("../../../lib/asset/mod.ts");
    const { Progress } = await import("../../../lib/base/progress/mod.ts");
    const { currentArch } = await import("../../../lib/profile/mod.ts");
    using progress = new Progress([{ name: "assets", weight: 1 }]);
    const result = await installAssets({ manifestUrl, home: home(), arch: currentArch(), progress });
    if (args.has("json")) await printJson(result);
    else {await print(
        `assets ${result.version} of ${result.profile}: downloaded ${count(result.fetched.length, "file")}`,
      );}
    return 0;
  },
};
