import { checkManifest, generateManifest } from "../../lib/asset/mod.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { printReport } from "./manifest_report.ts";

/** `sbx-admin manifest generate` (spec.md, "Command-line operations"). */
export const manifestGenerate: Command = {
  name: "manifest generate",
  synopsis: "<assets_dir> [--version <version>] [--json]",
  summary: "hash the files of a folder of images and write manifest.json and B3SUMS there",
  async run(args) {
    const { values, switches, positionals: [dir] } = parseArguments(args, {
      values: ["version"],
      switches: ["json"],
      positionals: ["<assets_dir>"],
    });
    const path = await hashing((progress) =>
      generateManifest(dir, { version: values.version, binaryVersion: VERSION, progress })
    );
    return printReport(await checkManifest(path), switches.has("json"));
  },
};

/** Shows the hashing of `work` as it goes on. */
export async function hashing<T>(work: (progress: Progress) => Promise<T>): Promise<T> {
  using progress = new Progress([{ name: "hash", weight: 1 }]);
  return await work(progress);
}
