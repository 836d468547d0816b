import { checkManifest, generateManifest } from "../../lib/release/asset/mod.ts";
import { type Command, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { printReport } from "./manifest_report.ts";
import { VERSION_OPTION } from "./version_option.ts";

/** `sbx-admin manifest generate` (docs/design/contracts/13-command-line.md §13). */
export const manifestGenerate: Command = {
  name: "manifest generate",
  usage: "ASSETS_DIR [--version VERSION] [--json]",
  summary: "hash the files of an image folder and write manifest.json and B3SUMS there",
  options: [VERSION_OPTION, JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin manifest generate dist/assets"],
  async run(args) {
    const [dir] = args.words;
    const path = await withHashProgress((progress) =>
      generateManifest(dir, { version: args.text("version"), binaryVersion: VERSION, progress })
    );
    return printReport(await checkManifest(path), args.has("json"));
  },
};

/** Shows the progress of hashing in `work`. */
export async function withHashProgress<T>(work: (progress: Progress) => Promise<T>): Promise<T> {
  using progress = new Progress([{ name: "hash", weight: 1 }]);
  return await work(progress);
}
