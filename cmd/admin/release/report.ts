import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { TreeReport } from "../../../lib/release/mod.ts";

/** Prints a report as JSON or as lines; returns the exit code. */
export async function printTreeReport(report: TreeReport, json: boolean): Promise<number> {
  if (json) await printJson(report);
  else {
    for (const { check, subject, ok, detail } of report.results) {
      await print(`${ok ? "ok    " : "NOT OK"} ${check.padEnd(9)} ${subject}${detail ? `: ${detail}` : ""}`);
    }
    const bad = report.results.filter(({ ok }) => !ok).length;
    await print(
      `${report.dir}: ${report.ok ? "ok" : `NOT OK, ${count(bad, "problem")}`}: ${
        count(report.releases.length, "release")
      }`,
    );
  }
  return report.ok ? 0 : 1;
}
