import { compileRead } from "../../lib/detection/compile.ts";
import { readPack } from "../../lib/detection/pack/pack.ts";
import { diagnosticsOf } from "../../lib/detection/problem.ts";
import {
  type Check,
  checkEvents,
  type CheckReport,
  FINDINGS_SHOWN,
} from "../../lib/detection/replay/check.ts";
import { junit } from "../../lib/detection/replay/junit.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import { parseArguments, usage } from "./arguments.ts";
import type { Command } from "./command.ts";
import { printDiagnostics, write } from "./detection_pack.ts";

/** Findings that people are shown; `--json` lists more. */
const FINDINGS_PRINTED = 20;

/**
 * `sbx-admin detection backtest` (spec.md, "Command-line operations"): exit 1 when the pack does not compile, a line of
 * the events is bad, or the labels of a line are not those of its findings.
 */
export const detectionBacktest: Command = {
  name: "detection backtest",
  synopsis: "<pack_file> --events <jsonl_file> [--limit <findings>] [--junit <file>] [--json]",
  summary: "run a detection pack over policy-context fixtures and compare their expected_labels",
  async run(args) {
    const { values: { events, limit, junit: out }, switches, positionals: [path] } = parseArguments(args, {
      values: ["events", "limit", "junit"],
      switches: ["json"],
      positionals: ["<pack_file>"],
    });
    if (events === undefined) throw usage("--events <jsonl_file> is missing");
    const check = await run(path, events, limit === undefined ? FINDINGS_SHOWN : countOf(limit));
    if (out !== undefined) await write(out, junit(check, events));
    if (switches.has("json")) console.log(JSON.stringify(check.report, null, 2));
    else print(check.report, events);
    return check.report.ok ? 0 : 1;
  },
};

async function run(path: string, events: string, limit: number): Promise<Check> {
  const started = performance.now();
  const read = await readPack(path);
  const { ir, problems } = await compileRead(read);
  const warnings = diagnosticsOf(problems);
  if (ir) {
    using progress = new Progress([{ name: "events", weight: 1 }]);
    const { report, results } = await checkEvents(ir, events, { limit, progress });
    const duration_ms = Math.round(performance.now() - started);
    return {
      report: { ...report, diagnostics: [...warnings, ...report.diagnostics], timing: { duration_ms } },
      results,
    };
  }
  const report: CheckReport = {
    schema: "sbx.detection-check.v1",
    ok: false,
    pack_id: read.id,
    pack_version: read.version,
    event_count: 0,
    rule_count: 0,
    match_count: 0,
    findings: [],
    diagnostics: warnings,
    timing: { duration_ms: Math.round(performance.now() - started) },
  };
  return { report, results: [] };
}

function countOf(text: string): number {
  const count = Number(text);
  if (/^\d{1,7}$/.test(text)) return count;
  throw usage(`--limit ${text} is not a number of findings`);
}

function print({ ok, diagnostics, findings, ...counts }: CheckReport, events: string): void {
  printDiagnostics(diagnostics);
  for (const { event_id, rule_id, severity, title, matched_fields } of findings.slice(0, FINDINGS_PRINTED)) {
    const fields = Object.entries(matched_fields).map(([path, value]) => `${path}=${JSON.stringify(value)}`)
      .join(" ");
    console.log(`${severity.padEnd(8)} ${event_id || "-"} ${rule_id}: ${title} (${fields})`);
  }
  if (findings.length > FINDINGS_PRINTED) console.log(`… and ${counts.match_count - FINDINGS_PRINTED} more`);
  const { event_count, rule_count, match_count, timing: { duration_ms } } = counts;
  console.log(
    `${events}: ${
      ok ? "ok" : "NOT OK"
    }: ${match_count} findings of ${rule_count} rules in ${event_count} events ` +
      `(${(duration_ms / 1000).toFixed(1)} s)`,
  );
}
