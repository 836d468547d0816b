import { print, printJson } from "../../lib/base/print/mod.ts";
import { type Command, JSON_OPTION, usageError } from "../../lib/base/args/mod.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import { compileRead, diagnosticsOf } from "../../lib/detection/compile/mod.ts";
import { readPack } from "../../lib/detection/pack/mod.ts";
import {
  type Check,
  checkEvents,
  type CheckReport,
  FINDINGS_MAX,
  junitOf,
} from "../../lib/detection/replay/mod.ts";
import { printDiagnostics, write } from "./detection_pack.ts";
import { PROGRAM } from "./program.ts";

/** Most findings printed as text; `--json` lists more. */
const FINDINGS_PRINTED = 20;
/** Largest `--limit`. */
const LIMIT_MAX = 9_999_999;

/**
 * `sbx-admin detection backtest` (docs/design/contracts/13-command-line.md §13): exits with 1 when the pack
 * does not compile, an event line is invalid, or the labels of a line do not match its findings.
 */
export const detectionBacktest: Command = {
  name: "detection backtest",
  usage: "PACK_FILE --events FILE [--limit N] [--junit FILE] [--json]",
  summary: "run a detection pack over policy-context fixtures and compare their expected_labels",
  notes: [
    "The exit code is 1 if the pack does not compile, an event is invalid, or findings differ from the labels.",
  ],
  options: [
    { name: "events", value: "FILE", about: "fixtures, one JSON object per line" },
    { name: "limit", value: "N", about: `most findings in the report; default ${FINDINGS_MAX}` },
    { name: "junit", value: "FILE", about: "also write a JUnit report" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection backtest pack.yaml --events events.jsonl"],
  async run(args) {
    const [path] = args.words;
    const events = args.text("events");
    if (events === undefined) {
      throw usageError({ program: PROGRAM, command: detectionBacktest }, "missing option --events FILE");
    }
    const check = await run(path, events, args.number("limit", { min: 0, max: LIMIT_MAX }) ?? FINDINGS_MAX);
    const out = args.text("junit");
    if (out !== undefined) await write(out, junitOf(check, events));
    if (args.has("json")) await printJson(check.report);
    else await printReport(check.report, events);
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

async function printReport(
  { ok, diagnostics, findings, ...counts }: CheckReport,
  events: string,
): Promise<void> {
  printDiagnostics(diagnostics);
  for (const { event_id, rule_id, severity, title, matched_fields } of findings.slice(0, FINDINGS_PRINTED)) {
    const fields = Object.entries(matched_fields).map(([path, value]) => `${path}=${JSON.stringify(value)}`)
      .join(" ");
    await print(`${severity.padEnd(8)} ${event_id || "-"} ${rule_id}: ${title} (${fields})`);
  }
  if (findings.length > FINDINGS_PRINTED) await print(`… and ${counts.match_count - FINDINGS_PRINTED} more`);
  const { event_count, rule_count, match_count, timing: { duration_ms } } = counts;
  await print(
    `${events}: ${ok ? "ok" : "NOT OK"}: ${count(match_count, "finding")} of ${
      count(rule_count, "rule")
    } in ${count(event_count, "event")} ` +
      `(${(duration_ms / 1000).toFixed(1)} s)`,
  );
}
