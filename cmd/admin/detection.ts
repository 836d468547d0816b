/** `sbx-admin detection`: checks and compiles packs, prints them as SQL, and tries them on records. */
import { note, print, printJson } from "../../lib/base/print/mod.ts";
import { type Command, type CommandGroup, JSON_OPTION, usageError } from "../../lib/base/args/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { writeAtomic } from "../../lib/base/home/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import { writeAll } from "../../lib/base/wire/mod.ts";
import {
  compileRead,
  createCompileReport,
  detectionError,
  type Diagnostic,
  diagnosticsOf,
  type PortabilityReport,
  type PortabilityRule,
  type Problem,
  reportPortability,
} from "../../lib/detection/compile/mod.ts";
import { type Compiled, formatIr, rulesOf } from "../../lib/detection/mod.ts";
import { type LoadedRules, loadRules } from "../../lib/detection/active/mod.ts";
import { readPack, validationOf } from "../../lib/detection/pack/mod.ts";
import { PROGRAM } from "./program.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import {
  type Check,
  checkEvents,
  type CheckReport,
  FINDINGS_MAX,
  junitOf,
} from "../../lib/detection/replay/mod.ts";

/**
 * `sbx-admin detection validate` (docs/design/contracts/13-command-line.md §13): exits with 1 when the
 * envelope is invalid.
 */
const detectionValidate: Command = {
  name: "detection validate",
  usage: "PACK_FILE [--json]",
  summary: "check the envelope of a detection pack: YAML, TOML or JSON",
  notes: ["The exit code is 1 if the envelope is invalid."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection validate pack.yaml"],
  async run(args) {
    const [path] = args.words;
    const report = validationOf(await readPack(path), path);
    if (args.has("json")) await printJson(report);
    else {
      printDiagnostics(report.diagnostics);
      if (report.ok) await print(`${path} is valid: pack ${report.pack_id} ${report.version}`);
    }
    return report.ok ? 0 : 1;
  },
};

/**
 * `sbx-admin detection compile` (docs/design/contracts/13-command-line.md §13): exits with 1 when the pack
 * uses anything unsupported.
 */
const detectionCompile: Command = {
  name: "detection compile",
  usage: "PACK_FILE|RULES [--out FILE] [--json]",
  summary: "compile a detection pack to its IR, or Sigma rules to their plan",
  notes: [
    "RULES is a YAML file of Sigma rules, or a folder of them.",
    "Names every unsupported construct with its line; the exit code is 1 if there is one.",
  ],
  options: [
    { name: "out", value: "FILE", about: "file for the IR; default standard output" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: [
    "sbx-admin detection compile pack.yaml --out pack.ir.json",
    "sbx-admin detection compile sigma/rules/linux --out linux.plan.json",
  ],
  async run(args) {
    const [path] = args.words;
    const out = args.text("out");
    const rules = await loadRules(path);
    if (rules) return await compileSigma(rules, out, args.has("json"));
    const read = await readPack(path);
    const compiled = await compileRead(read);
    if (compiled.ir && out !== undefined) await write(out, formatIr(compiled.ir));
    const report = createCompileReport(compiled, read, out);
    if (args.has("json")) await printJson(report);
    else {
      printDiagnostics(report.diagnostics);
      // Without --out, the IR goes to standard output.
      if (compiled.ir && out === undefined) {
        await writeAll(Deno.stdout, new TextEncoder().encode(formatIr(compiled.ir)));
      } else if (report.ok) {
        await print(`${out}: ${count(report.rule_count, "rule")} of ${read.id} ${read.version}`);
      }
    }
    return report.ok ? 0 : 1;
  },
};

/** Compiles Sigma rules; a rule for another system is no fault of it. */
async function compileSigma(
  { ir, refused, warnings }: LoadedRules,
  out: string | undefined,
  json: boolean,
): Promise<number> {
  const text = JSON.stringify(ir, null, 2) + "\n";
  const isWritten = ir && out !== undefined;
  if (isWritten) await write(out, text);
  const diagnostics = diagnosticsOf(warnings);
  const report = {
    schema: "sbx.detection-compile.v1",
    ok: ir !== undefined && refused === 0,
    ...ir && { pack_id: ir.pack_id, pack_version: ir.pack_version },
    rule_count: ir ? rulesOf(ir).length : 0,
    ...isWritten && { output_path: out },
    diagnostics,
  };
  if (json) await printJson(report);
  else {
    printDiagnostics(diagnostics);
    if (ir && out === undefined) await writeAll(Deno.stdout, new TextEncoder().encode(text));
    else if (ir) {
      await print(`${out}: ${count(report.rule_count, "rule")} of ${ir.pack_id} ${ir.pack_version}`);
    }
  }
  return report.ok ? 0 : 1;
}

/** Prints diagnostics as text to standard error. */
function printDiagnostics(diagnostics: readonly Diagnostic[]): void {
  for (const { path, message } of diagnostics) {
    note(path && !message.includes(path) ? `${message} [${path}]` : message);
  }
}

/** Writes an output file named by the user. @throws {SbxError} `output.invalid` */
export async function write(path: string, text: string): Promise<void> {
  try {
    await writeAtomic(path, text, 0o644);
  } catch (cause) {
    throw new SbxError("output.invalid", `cannot write ${path}`, {
      cause,
      hint: "check its folder and permissions",
    });
  }
}

/** `sbx-admin detection sql`: a pack as one statement, over the tables of `fleet schema`. */
const detectionSql: Command = {
  name: "detection sql",
  usage: "PACK_FILE [--for clickhouse|duckdb] [--json]",
  summary: "print a pack as SQL over the tables of a fleet",
  notes: ["Values of rules are parameters; --json prints them beside the statement."],
  options: [
    {
      name: "for",
      value: "DATABASE",
      about: "clickhouse or duckdb; default clickhouse",
      choices: ["clickhouse", "duckdb"],
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection sql pack.yaml --for duckdb --json"],
  async run(args) {
    // 240 modules that the other commands do not need.
    const [{ huntSql }, { tableSource }] = await Promise.all([
      import("../../lib/detection/sql/mod.ts"),
      import("../../lib/fleet/table/mod.ts"),
    ]);
    const dialect = (args.text("for") ?? "clickhouse") as "clickhouse" | "duckdb";
    const read = await readPack(args.words[0]);
    const { ir, problems } = await compileRead(read);
    if (!ir) {
      const lines = problems.filter(({ severity }) => severity === "error").map(({ message }) => message);
      throw new SbxError("detection.invalid", `${args.words[0]} does not compile: ${lines[0]}`, {
        hint: "sbx-admin detection compile PACK_FILE shows every problem",
      });
    }
    const { sql, parameters, rules } = huntSql([ir], dialect, tableSource(dialect));
    if (args.has("json")) {
      await printJson({ database: dialect, sql, parameters, rules: rules.map(({ rule }) => rule.id) });
    } else {
      await print(sql.trimEnd());
      for (const [name, { values }] of Object.entries(parameters)) {
        await print(`-- ${name} = ${JSON.stringify(values)}`);
      }
    }
    return 0;
  },
};

/** Most lines of each printed table; `--json` has all. */
const LINES = 20;

/**
 * `sbx-admin detection portability`: measures how many rules of a foreign Sigma folder are accepted. Exits
 * with 0.
 */
const detectionPortability: Command = {
  name: "detection portability",
  usage: "DIR [--mapping PACK_FILE] [--json]",
  summary: "show which Sigma rules of a folder are accepted, and why others are not",
  notes: ["The exit code is 0 even if no rule is accepted."],
  options: [
    {
      name: "mapping",
      value: "PACK_FILE",
      about: "also show which are sources of this pack, by its field_mapping",
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection portability sigma/rules --mapping pack.yaml"],
  async run(args) {
    const path = args.text("mapping");
    const mapping = path === undefined ? {} : await mappingOf(path);
    const report = await measure(args.words[0], mapping);
    if (args.has("json")) await printJson(report);
    else {
      await printLanguage(report);
      // The subset that packs take of themselves is another question.
      if (path !== undefined) await printPortability(report);
    }
    return 0;
  },
};

async function measure(
  dir: string,
  mapping: Awaited<ReturnType<typeof mappingOf>>,
): Promise<PortabilityReport> {
  using progress = new Progress([{ name: "find", weight: 1 }, { name: "rules", weight: 9 }]);
  return await reportPortability(dir, { mapping, progress });
}

/** Reads the field_mapping of a pack. */
async function mappingOf(path: string) {
  const { pack, problems } = await readPack(path);
  if (!pack) throw detectionError(problems);
  return pack.field_mapping;
}

async function printLanguage({ path, language }: PortabilityReport) {
  const { compiled, refused, not_applicable, never_matches } = language;
  await print(
    `${path}: ${compiled} of ${
      count(compiled + refused + never_matches, "Sigma rule")
    } that apply compile; ` +
      `${refused} refused, ${never_matches} over fields that are never there; ${not_applicable} for other systems`,
  );
  if (language.reasons.length) await print("\nrules  refused because of");
  for (const { code, rules } of language.reasons.slice(0, LINES)) {
    await print(`${String(rules).padStart(5)}  ${code}`);
  }
  const wrong = language.rules.filter(({ status }) => status === "refused" || status === "never_matches");
  for (const { reasons } of wrong.slice(0, LINES)) {
    for (const { message } of reasons) await print(`  ${message}`);
  }
}

async function printPortability(
  { path, rule_count, accepted, accepted_after_split, reasons, missing_mappings, rules }: PortabilityReport,
) {
  await print("\nas sources of a pack:");
  await print(
    `${path}: ${accepted} of ${
      count(rule_count, "rule")
    } accepted, ${accepted_after_split} more after a split`,
  );
  if (reasons.length) await print("\nrules  not accepted because of");
  for (const { code, rules } of reasons.slice(0, LINES)) await print(`${String(rules).padStart(5)}  ${code}`);
  if (missing_mappings.length) await print("\nrules  fields without a mapping");
  for (const { logsource, field, family, rules } of missing_mappings.slice(0, LINES)) {
    await print(`${String(rules).padStart(5)}  ${logsource}: ${field}${family ? ` (${family})` : ""}`);
  }
  const splits = rules.filter(({ split }) => split);
  if (splits.length) await print("\nequivalent splits");
  for (const rule of splits.slice(0, LINES)) await print(`  ${formatSplit(rule)}`);
}

function formatSplit({ path, line, title, split }: PortabilityRule): string {
  const { rules, parts } = split!;
  const what = rules === 1 ? "one selection" : count(rules, "rule");
  return `${path}:${line}: ${title ?? "a rule"}: ${what} (${parts.slice(0, 5).join("; ")}${
    rules > 5 ? "; …" : ""
  })`;
}

/** Most findings printed as text; `--json` lists more. */
const FINDINGS_PRINTED = 20;
/** Largest `--limit`. */
const LIMIT_MAX = 9_999_999;

/**
 * `sbx-admin detection backtest` (docs/design/contracts/13-command-line.md §13): exits with 1 when the pack
 * does not compile, an event line is invalid, or the labels of a line do not match its findings.
 */
const detectionBacktest: Command = {
  name: "detection backtest",
  usage: "PACK_FILE|RULES --events FILE [--limit N] [--junit FILE] [--json]",
  summary: "run a pack or Sigma rules over fixtures and compare their expected_labels",
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
    else await printMatches(check.report, events);
    return check.report.ok ? 0 : 1;
  },
};

async function run(path: string, events: string, limit: number): Promise<Check> {
  const started = performance.now();
  const { read, ir, problems } = await loadDetections(path);
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

/** Reads and compiles a pack, or Sigma rules. */
async function loadDetections(
  path: string,
): Promise<{ read: { id: string | null; version: string | null }; ir?: Compiled; problems: Problem[] }> {
  const rules = await loadRules(path);
  if (rules) {
    return { read: { id: null, version: null }, ...rules.ir && { ir: rules.ir }, problems: rules.warnings };
  }
  const read = await readPack(path);
  return { read, ...await compileRead(read) };
}

async function printMatches(
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

export const group: CommandGroup = {
  name: "detection",
  summary: "validate, compile and test detection packs",
  subcommands: [detectionValidate, detectionCompile, detectionBacktest, detectionPortability, detectionSql],
};
