import { formatJunit } from "../../base/junit/mod.ts";
import type { Check } from "./check.ts";

/**
 * Formats a check as JUnit XML: one case for all lines being valid events, and one case per labelled line.
 */
export function junitOf({ report, results }: Check, path: string): string {
  const labelled = new Set(results.map(({ line }) => `${path}:${line}`));
  const otherFailures = report.ok ? [] : report.diagnostics.filter(({ path: at }) => !labelled.has(at));
  return formatJunit({
    name: `${report.pack_id} ${report.pack_version}`,
    className: path,
    durationMs: report.timing.duration_ms,
    cases: [
      {
        name: "every line is an event",
        failure: otherFailures.map(({ message }) => message).join("\n"),
      },
      ...results.map(({ line, event_id, message }) => ({
        name: `line ${line}${event_id ? ` (${event_id})` : ""}`,
        failure: message,
      })),
    ],
  });
}
