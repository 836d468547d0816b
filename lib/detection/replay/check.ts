/**
 * Backtest of an events file of any size (docs/design/contracts/06-detection.md §6,
 * `sbx.detection-check.v1`).
 */
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { type Compiled, rulesOf, testedFields } from "../compiled.ts";
import { type Diagnostic, DIAGNOSTICS_MAX } from "../compile/mod.ts";
import type { Confidence, Severity } from "../ir/ir.ts";
import type { Matchable } from "../match/index_node.ts";
import { type LoadedRule, Matcher } from "../match/matcher.ts";
import { type FixtureLine, readFixture } from "./fixture.ts";
import { KnownLines } from "./known_line.ts";
import { compareLabels } from "./label.ts";
import { readLines } from "./lines.ts";

/** Default maximum of findings in a report; keeps memory bounded. */
export const FINDINGS_MAX = 10_000;
/**
 * Number of lines checked for unknown fields. Short files are written by hand and contain mistakes; long ones
 * are generated with uniform lines, where the check would cost a fifth of the speed.
 */
export const STRICT_LINES = 10_000;
/** Maximum number of labelled lines with a stored result, for JUnit. */
const RESULTS_MAX = 100_000;

/** Finding in the report. */
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
  /** null if the pack could not be read */
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

/** Result of a labelled line. */
export interface LabelResult {
  line: number;
  event_id: string;
  /** missed labels and unexpected rules; absent if the line passed */
  message?: string;
}

/** Report with the results of labelled lines. */
export interface Check {
  report: CheckReport;
  results: LabelResult[];
}

export interface CheckOptions {
  /** maximum number of findings listed; all are counted */
  limit?: number;
  /** receives the bytes read, in stage `events` */
  progress?: ProgressSink;
}

/**
 * Runs a pack's rules over a JSON Lines file of events. An invalid line is reported with its number and does
 * not affect the others. Labels are compared if any line of the file has one: then `[]` expects no finding. A
 * file without labels, such as an exported session, has no expectations.
 *
 * @throws {SbxError} `detection.not_found`: the file cannot be read
 */
export async function checkEvents(ir: Compiled, path: string, options: CheckOptions = {}): Promise<Check> {
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
  readonly #known: KnownLines;
  readonly #findings: CheckFinding[] = [];
  readonly #diagnostics: Diagnostic[] = [];
  readonly #results: LabelResult[] = [];
  #events = 0;
  #faults = 0;
  #differences = 0;
  #hasLabels = false;
  /** lines with empty labels and a match: a difference only if another line has labels */
  readonly #unlabelled: { line: number; event_id: string; hits: string[] }[] = [];
  #unlabelledCount = 0;

  constructor(readonly ir: Compiled, readonly path: string, readonly options: CheckOptions) {
    this.#matcher = new Matcher([ir]);
    this.#known = new KnownLines(this.#matcher.reads);
  }

  line(text: string, number: number): void {
    if (text.length < 2 && text.trim() === "") return;
    const known = this.#known.eventOf(text);
    if (known && !this.#matcher.mayHit(known)) {
      this.#known.spare();
      this.#events++;
      return;
    }
    const fixture = readFixture(text, number <= STRICT_LINES);
    if (typeof fixture === "string") {
      if (text.trim() !== "") this.fault(number, fixture);
      return;
    }
    if (!known) this.#known.learn(text, fixture);
    this.#events++;
    const hits = this.#matcher.hits(fixture.event);
    if (hits.length) this.#addFindings(fixture, hits);
    if (fixture.labels !== undefined && (hits.length || fixture.labels.length)) {
      this.#compare(fixture, hits, number);
    }
  }

  fault(number: number, message: string): void {
    if (this.#faults++ < DIAGNOSTICS_MAX) this.#diagnostics.push(this.#at(number, message));
  }

  #addFindings({ event, event_id }: FixtureLine, hits: readonly LoadedRule[]): void {
    const limit = this.options.limit ?? FINDINGS_MAX;
    for (const hit of hits) {
      if (this.#findings.length >= limit) return;
      this.#findings.push(findingOf(event, event_id, hit));
    }
  }

  #compare({ labels, event_id }: FixtureLine, hits: readonly LoadedRule[], line: number): void {
    if (!labels!.length) {
      if (this.#unlabelledCount++ < DIAGNOSTICS_MAX) {
        this.#unlabelled.push({ line, event_id, hits: hits.map(({ rule }) => rule.id) });
      }
      return;
    }
    this.#hasLabels = true;
    const { missed, unexpected } = compareLabels(labels!, hits.map(({ rule }) => rule));
    const message = [
      ...(missed.length ? [`missed labels: ${missed.join(", ")}`] : []),
      ...(unexpected.length ? [`unexpected rules: ${unexpected.join(", ")}`] : []),
    ].join("; ");
    this.#addResult({ line, event_id, ...(message && { message }) });
  }

  #addResult(result: LabelResult): void {
    if (this.#results.length < RESULTS_MAX) this.#results.push(result);
    if (result.message === undefined) return;
    if (this.#differences++ < DIAGNOSTICS_MAX) this.#diagnostics.push(this.#at(result.line, result.message));
  }

  check(duration_ms: number): Check {
    if (this.#hasLabels) {
      for (const { line, event_id, hits } of this.#unlabelled) {
        this.#addResult({ line, event_id, message: `unexpected rules: ${hits.join(", ")}` });
      }
      this.#differences += this.#unlabelledCount - this.#unlabelled.length;
    }
    const { matches } = this.#matcher.counters;
    this.#addRemainder(this.#faults, "more invalid lines");
    this.#addRemainder(this.#differences, "more lines with different labels");
    const ok = this.#faults === 0 && this.#differences === 0;
    if (matches > this.#findings.length) {
      this.#diagnostics.push({
        path: this.path,
        message: `${this.path}: ${this.#findings.length} of ${matches} findings are listed`,
      });
    }
    return {
      report: {
        schema: "sbx.detection-check.v1",
        ok,
        pack_id: this.ir.pack_id,
        pack_version: this.ir.pack_version,
        event_count: this.#events,
        rule_count: rulesOf(this.ir).length,
        match_count: matches,
        findings: this.#findings,
        diagnostics: this.#diagnostics,
        timing: { duration_ms },
      },
      results: this.#results.sort((a, b) => a.line - b.line),
    };
  }

  /** Adds a diagnostic with the number of problems not listed. */
  #addRemainder(count: number, label: string): void {
    const more = count - DIAGNOSTICS_MAX;
    if (more > 0) {
      this.#diagnostics.push({ path: this.path, message: `${this.path}: … and ${more} ${label}` });
    }
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
    matched_fields: Object.fromEntries(testedFields(rule, event).map(({ path, value }) => [path, value])),
  };
}
