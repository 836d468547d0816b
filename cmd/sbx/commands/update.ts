import { home } from "../../../lib/base/home/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { counted, print, printJson } from "../output.ts";

export const command: Command = {
  name: "update",
  usage: "--assets --manifest URL [--json]",
  summary: "fetch the files that VMs boot from, and verify them",
  options: [
    { name: "assets", about: "update the assets" },
    { name: "manifest", value: "URL", about: "manifest to update to: file://, https:// or http://" },
    JSON_OPTION,
  ],
  examples: ["sbx update --assets --manifest file:///srv/sbx/manifest.json"],
  async run(given) {
    const manifestUrl = given.text("manifest");
    if (!given.on("assets") || manifestUrl === undefined) {
      throw usage(command, "sbx update needs --assets and --manifest URL");
    }
    const { installAssets } = await import("../../../lib/asset/mod.ts");
    const { Progress } = await import("../../../lib/base/progress/mod.ts");
    const { currentArch } = await import("../../../lib/profile/mod.ts");
    using progress = new Progress([{ name: "assets", weight: 1 }]);
    const result = await installAssets({ manifestUrl, home: home(), arch: currentArch(), progress });
    if (given.on("json")) await printJson(result);
    else await print(`assets ${result.version}: ${counted(result.fetched.length, "file")} fetched`);
    return 0;
  },
};
