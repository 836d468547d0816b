/** The tables of a report, for all of its formats. */
import type { Report } from "../../../lib/client/api/mod.ts";
import { localTime, zoneOf } from "../../../lib/base/moment/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

export interface Part {
  title: string;
  /** sentence in place of an empty table */
  none: string;
  head: string[];
  rows: string[][];
}

export function titleOf(report: Report): string {
  const { since_unix_ms: since, until_unix_ms: until, generated_unix_ms: made } = report;
  const from = since === undefined ? "the first record" : minute(since);
  return `Report from ${from} to ${minute(until ?? made)} (${zoneOf(until ?? made)})`;
}

const minute = (ms: number) => localTime(ms).slice(0, 16);
const second = (ms: number) => localTime(ms).slice(0, 19);

/** The summary, a sentence a line. */
export function summaryOf(report: Report): string[] {
  const { sessions, left, refused, findings, asks } = report;
  const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
  const sent = sum(left.filter(({ kind }) => kind !== "export").map(({ sent_bytes }) => sent_bytes));
  const bad = sessions.filter(({ record }) => record.state === "invalid" || record.state === "unreadable");
  return [
    `${count(sessions.length, "session")}, ${count(report.events, "event")}; ` +
    `${formatBytes(sent)} left; ${count(sum(refused.map(({ events }) => events)), "event")} refused.`,
    `${count(asks.length, "question")} of policy, ${count(findings.length, "finding")}.`,
    sessions.length === 0
      ? "No session was there in this time."
      : bad.length === 0
      ? "Every record is as it was written."
      : `${count(bad.length, "record")} cannot be trusted: ${
        bad.map(({ vm, id }) => `${vm} (${id})`).join(", ")
      }.`,
    ...report.cut.length === 0 ? [] : [`Not whole, for their length: ${report.cut.join(", ")}.`],
  ];
}

/** Every table, in the order of a security team's questions. */
export function partsOf(report: Report): Part[] {
  return [
    {
      title: "What left",
      none: "Nothing left.",
      head: [
        "VM",
        "KIND",
        "HOST",
        "PROGRAM",
        "SENT",
        "BYTES",
        "FAILED",
        "AT MOST",
        "REFUSED",
        "CACHED",
        "RECEIVED",
      ],
      rows: report.left.map((row) => [
        row.vm,
        row.kind,
        row.host,
        row.program,
        ...[
          row.sent,
          row.sent_bytes,
          row.failed,
          row.failed_bytes,
          row.refused,
          row.cached,
          row.received_bytes,
        ]
          .map(String),
      ]),
    },
    {
      title: "Refused",
      none: "Nothing was refused.",
      head: ["VM", "RULE", "TYPE", "EVENTS"],
      rows: report.refused.map((
        { vm, rule_id, event_type, events },
      ) => [vm, rule_id, event_type, String(events)]),
    },
    {
      title: "Asked",
      none: "Nothing was asked.",
      head: ["TIME", "VM", "SUBJECT", "RULE", "ANSWER", "BY"],
      rows: report.asks.map(({ at, vm, subject, rule_id, status, answered_by = "" }) => [
        second(Date.parse(at)),
        vm,
        subject,
        rule_id,
        status,
        answered_by,
      ]),
    },
    {
      title: "Which secret was used where",
      none: "No secret was used.",
      head: ["VM", "SECRET", "PROVIDER", "HOST", "PLACE", "OUTCOME", "USES"],
      rows: report.secrets.map(({ vm, credential_ref, provider, host, location, outcome, uses }) => [
        vm,
        credential_ref.replace(/^(credential:blake3:[0-9a-f]{12})[0-9a-f]+$/, "$1"),
        provider,
        host,
        location,
        outcome,
        String(uses),
      ]),
    },
    {
      title: "Findings",
      none: "No findings.",
      head: ["TIME", "SEVERITY", "DECISION", "STATE", "VM", "RULE", "TITLE", "SUBJECT", "EVENT"],
      rows: report.findings.map((finding) => [
        second(finding.at_unix_ms),
        finding.severity,
        finding.decision,
        finding.verdict ?? finding.state,
        finding.vm,
        finding.rule_id,
        finding.title,
        finding.subject,
        finding.event_id,
      ]),
    },
    {
      title: "Programs",
      none: "No program ran.",
      head: ["VM", "PROGRAM", "RUNS", "REFUSED"],
      rows: report.programs.map(({ vm, executable, runs, refused }) => [
        vm,
        executable,
        String(runs),
        String(refused),
      ]),
    },
    {
      title: "Models",
      none: "No model was called.",
      head: ["VM", "PROVIDER", "MODEL", "CALLS", "REFUSED", "INPUT", "OUTPUT", "COST"],
      rows: report.models.map((row) => [
        row.vm,
        row.provider,
        row.model,
        ...[row.calls, row.refused, row.input_tokens, row.output_tokens].map(String),
        `$${(row.cost_micros / 1e6).toFixed(4)}`,
      ]),
    },
    {
      title: "Sessions and their records",
      none: "No session.",
      head: ["SESSION", "VM", "PROFILE", "AGENT", "CREATED", "ENDED", "MADE BY", "EVENTS", "RECORD"],
      rows: report.sessions.map((session) => [
        session.id,
        session.vm,
        session.profile_id,
        session.agent ?? "",
        second(Date.parse(session.created_at)),
        session.ended_at === undefined ? "runs" : second(Date.parse(session.ended_at)),
        session.user === undefined ? "" : `${session.user} (${session.client})`,
        String(session.events),
        recordOf(session.record),
      ]),
    },
  ];
}

function recordOf({ state, sealed, signed_by, reason }: Report["sessions"][number]["record"]): string {
  if (state !== "valid") return reason === undefined ? state : `${state}: ${reason}`;
  if (!sealed) return "valid, not sealed: its end is not proven";
  return signed_by === undefined ? "valid, sealed" : `valid, sealed, signed by ${signed_by}`;
}
