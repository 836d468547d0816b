/** Backtest of a file of events, of any size (contracts.md §6, `sbx.detection-check.v1`). */
import { valueAt } from "../../event/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import type { Confidence, DetectionIr, Severity } from "../ir.ts";
import { type LoadedRule, Matcher } from "../match/matcher.ts";
import type { Matchable } from "../match/index_node.ts";
import { type Diagnostic, PROBLEMS_SHOWN } from "../problem.ts";
import { type FixtureLine, readFixture } from "./fixture.ts";
import { compareLabels } from "./label.ts";
import { readLines } from "./lines.ts";

/** Findings that a report lists; memory stays flat however many there are. */
export const FINDINGS_SHOWN = 10_000;
/**
 * Lines that are looked at for fields that no event has. People write short files, and mistakes; programs write long
 * ones in which a line is like the next, and there it would cost a fifth of the speed.
 */
export const STRICT_LINES = 10_000;
/** Labelled lines whose result is kept, for JUnit. */
const RESULTS_MAX = 100_000;

/** A finding of the report. */
export interface CheckFinding {
  event_id: string;
  rule_id: string;
  pack_id: string;
  pack_version: string;
  sigma_id?: string;
  title: string;
  severity: Severity;
  confidence: Confidence;
  tags: string[];
  matched_fields: Record<string, unknown>;
}

export interface CheckReport {
  schema: "sbx.detection-check.v1";
  ok: boolean;
  /** null when the pack could not be read */
  pack_id: string | null;
  pack_version: string | null;
  event_count: number;
  rule_count: number;
  /** pairs of event and rule */
  match_count: number;
  findings: CheckFinding[];
  diagnostics: Diagnostic[];
  timing: { duration_ms: number };
}

/** What became of a line with labels. */
export interface LabelResult {
  line: number;
  event_id: string;
  /** what was missed and what was not expected; absent when it is as it should be */
  message?: string;
}

/** The report, and the labelled lines one by one. */
export interface Check {
  report: CheckReport;
  results: LabelResult[];
}

export interface CheckOptions {
  /** most findings that are listed; all are counted */
  limit?: number;
  /** told the bytes that are behind, in a stage `events` */
  progress?: ProgressSink;
}

/**
 * Runs a pack's rules over a file of events, JSON Lines. A bad line is told with its number, and hides no good one.
 * Labels are compared when any line of the file has one: then `[]` means that nothing is to be found there. A file
 * without labels, such as an exported session, expects nothing.
 *
 * @throws {SbxError} `detection.not_found` when the file cannot be read
 */
export async function checkEvents(ir: DetectionIr, path: string, options: CheckOptions = {}): Promise<Check> {
  const started = performance.now();
  const run = new Run(ir, path, options);
  const { progress = silent } = options;
  progress.stage("events", (await Deno.stat(path).catch(() => null))?.size);
  await readLines(path, {
    line: (text, number) => run.line(text, number),
    fault: (number, message) => run.fault(number, message),
    read: (bytes) => progress.advance(bytes),
  });
  return run.check(Math.round(performance.now() - started));
}

class Run {
  readonly #matcher: Matcher;
  readonly #findings: CheckFinding[] = [];
  readonly #diagnostics: Diagnostic[] = [];
  readonly #results: LabelResult[] = [];
  #events = 0;
  #faults = 0;
  #differences = 0;
  #hasLabels = false;
  /** lines that expect nothing and were found: a difference only if there are labels elsewhere */
  readonly #silent: { line: number; event_id: string; hits: string[] }[] = [];
  #silentCount = 0;

  constructor(readonly ir: DetectionIr, readonly path: string, readonly options: CheckOptions) {
    this.#matcher = new Matcher([ir]);
  }

  line(text: string, number: number): void {
    if (text.length < 2 && text.trim() === "") return;
    const read = readFixture(text, number <= STRICT_LINES);
    if (typeof read === "string") {
      if (text.trim() !== "") this.fault(number, read);
      return;
    }
    this.#events++;
    const hits = this.#matcher.hits(read.event);
    if (hits.length) this.#keep(read, hits);
    if (read.labels !== undefined && (hits.length || read.labels.length)) this.#compare(read, hits, number);
  }

  fault(number: number, message: string): void {
    if (this.#faults++ < PROBLEMS_SHOWN) this.#diagnostics.push(this.#at(number, message));
  }

  #keep({ event, event_id }: FixtureLine, hits: readonly LoadedRule[]): void {
    const limit = this.options.limit ?? FINDINGS_SHOWN;
    for (const hit of hits) {
      if (this.#findings.length >= limit) return;
      this.#findings.push(findingOf(event, event_id, hit));
    }
  }

  #compare({ labels, event_id }: FixtureLine, hits: readonly LoadedRule[], line: number): void {
    if (!labels!.length) {
      if (this.#silentCount++ < PROBLEMS_SHOWN) {
        this.#silent.push({ line, event_id, hits: hits.map(({ rule }) => rule.id) });
      }
      return;
    }
    this.#hasLabels = true;
    const { missed, unexpected } = compareLabels(labels!, hits.map(({ rule }) => rule));
    const message = [
      ...(missed.length ? [`missed labels: ${missed.join(", ")}`] : []),
      ...(unexpected.length ? [`unexpected: ${unexpected.join(", ")}`] : []),
    ].join("; ");
    this.#result({ line, event_id, ...(message && { message }) });
  }

  #result(result: LabelResult): void {
    if (this.#results.length < RESULTS_MAX) this.#results.push(result);
    if (result.message === undefined) return;
    if (this.#differences++ < PROBLEMS_SHOWN) this.#diagnostics.push(this.#at(result.line, result.message));
  }

  check(duration_ms: number): Check {
    if (this.#hasLabels) {
      for (const { line, event_id, hits } of this.#silent) {
        this.#result({ line, event_id, message: `unexpected: ${hits.join(", ")}` });
      }
      this.#differences += this.#silentCount - this.#silent.length;
    }
    const { matches } = this.#matcher.counters;
    this.#tellRest(this.#faults, "more bad lines");
    this.#tellRest(this.#differences, "more lines whose labels differ");
    const ok = this.#faults === 0 && this.#differences === 0;
    if (matches > this.#findings.length) {
      this.#diagnostics.push({
        path: this.path,
        message: `${this.path}: only the first ${this.#findings.length} of ${matches} findings are listed`,
      });
    }
    return {
      report: {
        schema: "sbx.detection-check.v1",
        ok,
        pack_id: this.ir.pack_id,
        pack_version: this.ir.pack_version,
        event_count: this.#events,
        rule_count: this.ir.rules.length,
        match_count: matches,
        findings: this.#findings,
        diagnostics: this.#diagnostics,
        timing: { duration_ms },
      },
      results: this.#results.sort((a, b) => a.line - b.line),
    };
  }

  #tellRest(count: number, what: string): void {
    const more = count - PROBLEMS_SHOWN;
    if (more > 0) this.#diagnostics.push({ path: this.path, message: `${this.path}: … and ${more} ${what}` });
  }

  #at(line: number, message: string): Diagnostic {
    return { path: `${this.path}:${line}`, message: `${this.path}:${line}: ${message}` };
  }
}

function findingOf(
  event: Matchable,
  event_id: string,
  { rule, pack_id, pack_version }: LoadedRule,
): CheckFinding {
  return {
    event_id,
    rule_id: rule.id,
    pack_id,
    pack_version,
    ...(rule.sigma_id !== undefined && { sigma_id: rule.sigma_id }),
    title: rule.title,
    severity: rule.severity,
    confidence: rule.confidence,
    tags: rule.tags,
    matched_fields: Object.fromEntries(
      rule.matchers.map(({ field_path }) => [field_path, valueAt(event, field_path)]),
    ),
  };
}
