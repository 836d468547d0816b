import { checkManifest } from "../../lib/release/asset/mod.ts";
import { type Command, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { withHashProgress } from "./manifest_generate.ts";
import { printReport } from "./manifest_report.ts";

/**
 * `sbx-admin manifest check` (docs/design/contracts/13-command-line.md §13): exits with 1 when a file does
 * not match the manifest.
 */
export const manifestCheck: Command = {
  name: "manifest check",
  usage: "MANIFEST [--json]",
  summary: "compare a manifest with the files beside it",
  notes: ["The exit code is 1 if a file does not match."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin manifest check dist/assets/manifest.json"],
  async run(args) {
    return printReport(
      await withHashProgress((progress) => checkManifest(args.words[0], progress)),
      args.has("json"),
    );
  },
};
