/**
 * Files of a run for a build server: its summary, its findings in the formats of servers, its annotations.
 */
import type { ListedFinding } from "../../../lib/client/api/mod.ts";
import { formatJunit } from "../../../lib/base/junit/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { AgentCost } from "./agent_report.ts";

export type CiFinding = Pick<
  ListedFinding,
  "finding_id" | "rule_id" | "title" | "severity" | "subject"
>;

/** The result of a run. */
export interface CiRun {
  /** line of the program */
  program: string;
  exit_code: number;
  session: string;
  findings: readonly CiFinding[];
  /** refused events with how often each occurred */
  refused: readonly { subject: string; times: number }[];
  cost: AgentCost;
}

/** Severities, the mildest first, and `never`. */
export const FAIL_ON = ["info", "low", "medium", "high", "critical", "never"] as const;
export type FailOn = typeof FAIL_ON[number];

/** Exit code of a run with findings that are severe enough, as of `--fail-on-match`. */
const FOUND = 4;

/** Most rows of each table of the summary. */
const ROWS_MAX = 50;
/** Most characters of words of a guest: GitHub takes no summary of more than 1 MiB. */
const WORDS_MAX = 400;

/** The findings that fail a run. */
export function failing<F extends Pick<CiFinding, "severity">>(findings: readonly F[], failOn: FailOn): F[] {
  return findings.filter(({ severity }) => FAIL_ON.indexOf(severity) >= FAIL_ON.indexOf(failOn));
}

/** Exit code of a run: its program's, unless that succeeded and findings fail it. */
export function ciExitCode(
  { exit_code, findings }: Pick<CiRun, "exit_code" | "findings">,
  failOn: FailOn,
): number {
  return exit_code !== 0 || failing(findings, failOn).length === 0 ? exit_code : FOUND;
}

/** The summary of a job, in Markdown. Words of the guest are code in it, and nothing else. */
export function ciSummary({ program, exit_code, session, findings, refused, cost }: CiRun): string {
  const price = cost.calls === 0 ? "none" : `${count(cost.calls, "call")}, $${cost.usd.toFixed(4)}` +
    (cost.unpriced_calls > 0 ? ` and ${count(cost.unpriced_calls, "call")} of unknown price` : "");
  return [
    `## sbx: ${code(program)}`,
    "",
    "| exit code | findings | refused | model calls | session |",
    "| --- | --- | --- | --- | --- |",
    `| ${exit_code} | ${findings.length} | ${
      refused.reduce((sum, { times }) => sum + times, 0)
    } | ${price} | ${code(session)} |`,
    ...table(
      "Findings",
      ["severity", "rule", "finding", "event"],
      findings.map((finding) => [
        finding.severity,
        code(finding.rule_id),
        code(finding.title),
        code(finding.subject ?? ""),
      ]),
    ),
    ...table("Refused", ["times", "event"], refused.map(({ subject, times }) => [`${times}`, code(subject)])),
    "",
  ].join("\n");
}

/** Findings as failed cases of a JUnit suite; one that passed without any. */
export function ciJunit({ program, findings }: Pick<CiRun, "program" | "findings">, failOn: FailOn): string {
  const isFailing = new Set(failing(findings, failOn));
  const cases = findings.map((finding) => ({
    name: `${finding.rule_id}: ${short(plain(finding.subject ?? finding.title))}`,
    ...isFailing.has(finding) && { failure: `${finding.severity}: ${short(plain(finding.title))}` },
  }));
  const name = "findings";
  return formatJunit({
    name,
    className: `sbx ${plain(program)}`,
    cases: cases.length > 0 ? cases : [{ name }],
  });
}

const CODE_QUALITY = {
  info: "info",
  low: "minor",
  medium: "major",
  high: "critical",
  critical: "blocker",
} as const;

/** Findings as GitLab's Code Quality report. */
export function ciCodeQuality(findings: readonly CiFinding[]): string {
  return JSON.stringify(
    findings.map(({ finding_id, rule_id, title, severity, subject }) => ({
      description: short(plain(subject === undefined ? title : `${title}: ${subject}`)),
      check_name: rule_id,
      fingerprint: finding_id,
      severity: CODE_QUALITY[severity],
      // The report needs a place; a finding is about an event.
      location: { path: "sbx", lines: { begin: 1 } },
    })),
    null,
    2,
  ) + "\n";
}

/** Findings and refusals as workflow commands of GitHub, one a line. */
export function ciAnnotations(
  { findings, refused }: Pick<CiRun, "findings" | "refused">,
  failOn: FailOn,
): string[] {
  const isFailing = new Set(failing(findings, failOn));
  return [
    ...findings.slice(0, ROWS_MAX).map((finding) => {
      const kind = isFailing.has(finding) ? "error" : "warning";
      const words = [finding.title, finding.subject].filter((text) => text !== undefined).join(": ");
      return `::${kind} title=${property(`sbx ${finding.severity} ${finding.rule_id}`)}::${
        data(short(words))
      }`;
    }),
    ...refused.slice(0, ROWS_MAX).map(({ subject, times }) =>
      `::notice title=sbx refused::${data(short(subject) + (times === 1 ? "" : `, ${times} times`))}`
    ),
  ];
}

function short(text: string): string {
  return text.length <= WORDS_MAX ? text : `${text.slice(0, WORDS_MAX).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Text of a workflow command: a line break in it would begin another command. */
function data(text: string): string {
  return plain(text, true).replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function property(text: string): string {
  return data(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}

/** Code in a cell of a Markdown table. */
function code(text: string): string {
  const line = short(plain(text)).replaceAll("|", "\\|");
  const fence = "`".repeat(1 + Math.max(0, ...(line.match(/`+/g) ?? []).map((ticks) => ticks.length)));
  return line === ""
    ? ""
    : `${fence}${fence.length > 1 ? " " : ""}${line}${fence.length > 1 ? " " : ""}${fence}`;
}

function table(title: string, heads: string[], rows: string[][]): string[] {
  if (rows.length === 0) return [];
  const line = (cells: string[]) => `| ${cells.join(" | ")} |`;
  const more = rows.length - ROWS_MAX;
  return [
    "",
    `### ${title}`,
    "",
    line(heads),
    line(heads.map(() => "---")),
    ...rows.slice(0, ROWS_MAX).map(line),
    ...more > 0 ? ["", `and ${more} more`] : [],
  ];
}
