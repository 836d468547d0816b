import { checkManifest, generateManifest, type ManifestReport } from "../../lib/release/asset/mod.ts";
import { type Command, type CommandGroup, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { formatBytes, Progress } from "../../lib/base/progress/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { VERSION_OPTION } from "./program.ts";
import { print, printJson } from "../../lib/base/print/mod.ts";
import { count } from "../../lib/base/text/mod.ts";

/** Prints a report as JSON or as a table; returns the exit code. */
async function printReport(report: ManifestReport, json: boolean): Promise<number> {
  if (json) await printJson(report);
  else await print(formatTable(report));
  return report.ok ? 0 : 1;
}

function formatTable(
  { ok, path, blake3, asset_version, binary_version, releases, arches }: ManifestReport,
): string {
  const lines = [
    `${path}: ${ok ? "ok" : "NOT OK"}`,
    `  blake3   ${blake3}`,
    `  assets   ${asset_version} of ${count(releases, "release")}; sbx ${binary_version}`,
  ];
  for (const { asset_version: version, arch, assets } of arches) {
    lines.push(`  ${version} ${arch}`);
    for (const { logical_name, size, hash, present, size_ok, blake3_ok } of assets) {
      const state = !present ? "missing" : !size_ok ? "wrong size" : !blake3_ok ? "wrong hash" : "ok";
      lines.push(
        `    ${logical_name.padEnd(14)} ${formatBytes(size).padStart(9)}  ${hash.slice(0, 16)}…  ${state}`,
      );
    }
  }
  return lines.join("\n");
}

/** `sbx-admin manifest generate` (docs/design/contracts/13-command-line.md §13). */
const manifestGenerate: Command = {
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
async function withHashProgress<T>(work: (progress: Progress) => Promise<T>): Promise<T> {
  using progress = new Progress([{ name: "hash", weight: 1 }]);
  return await work(progress);
}

/**
 * `sbx-admin manifest check` (docs/design/contracts/13-command-line.md §13): exits with 1 when a file does
 * not match the manifest.
 */
const manifestCheck: Command = {
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

export const group: CommandGroup = {
  name: "manifest",
  summary: "generate and check manifests of assets",
  subcommands: [manifestGenerate, manifestCheck],
};
