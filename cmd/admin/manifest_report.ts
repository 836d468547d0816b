import { print, printJson } from "../../lib/base/print/mod.ts";
import type { ManifestReport } from "../../lib/release/asset/mod.ts";
import { formatBytes } from "../../lib/base/progress/mod.ts";
import { count } from "../../lib/base/text/mod.ts";

/** Prints a report as JSON or as a table; returns the exit code. */
export async function printReport(report: ManifestReport, json: boolean): Promise<number> {
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
