import { checkManifest } from "../../lib/asset/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { hashing } from "./manifest_generate.ts";
import { printReport } from "./manifest_report.ts";

/** `sbx-admin manifest check` (spec.md, "Command-line operations"): exit 1 when a file is not what the manifest says. */
export const manifestCheck: Command = {
  name: "manifest check",
  synopsis: "<manifest_path> [--json]",
  summary: "compare a manifest with the files beside it",
  async run(args) {
    const { switches, positionals: [path] } = parseArguments(args, {
      values: [],
      switches: ["json"],
      positionals: ["<manifest_path>"],
    });
    return printReport(await hashing((progress) => checkManifest(path, progress)), switches.has("json"));
  },
};
