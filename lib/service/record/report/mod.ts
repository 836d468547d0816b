/**
 * The report over many sessions: programs, questions, bytes that left, findings, and checks of the records
 */
import type { ListedFinding, Report } from "../../../client/api/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { readApprovals, readSentLater, type SealCheck, verifyLedger } from "../../../ledger/read/mod.ts";
import type { LedgerWitness } from "../../../ledger/witness/mod.ts";
import type { AskRecord } from "../../../policy/mod.ts";
import { mayHave, type RecordedSession } from "../across/mod.ts";
import { eventsOf } from "../ledger.ts";
import { Counts, ROWS_MAX } from "./count.ts";

/** Findings of a session that are looked at for the ones of the time of the report. */
const FINDINGS_READ = 10_000;

interface ReportTerms {
  since?: number;
  until?: number;
}

interface ReportSources {
  /** findings of one ledger, oldest first */
  findings(ledger: string, limit: number): Promise<ListedFinding[]>;
  checkSeal?: SealCheck;
  /** heads of a session's record that the service has witnessed */
  witnessOf?(id: string): Promise<LedgerWitness | undefined>;
}

/**
 * Makes a report in one pass over the ledgers and a check of each; its memory
 * does not grow with their events.
 */
export async function makeReport(
  sessions: readonly RecordedSession[],
  terms: ReportTerms,
  sources: ReportSources,
): Promise<Report> {
  const counts = new Counts();
  const lists = { sessions: [], asks: [], findings: [] } as Pick<Report, "sessions" | "asks" | "findings">;
  const cut = new Set<string>();
  const add = <K extends keyof typeof lists>(name: K, row: typeof lists[K][number]) => {
    if (lists[name].length < ROWS_MAX) (lists[name] as unknown[]).push(row);
    else cut.add(name);
  };
  const addSession = (row: Report["sessions"][number]) => {
    // A record that cannot be trusted is named also when many others are there.
    if (isBad(row) && lists.sessions.length === ROWS_MAX) {
      const good = lists.sessions.findLastIndex((each) => !isBad(each));
      if (good >= 0) lists.sessions.splice(good, 1);
      cut.add("sessions");
    }
    add("sessions", row);
  };
  for (const session of sessions) {
    if (!mayHave(session, terms)) continue;
    const before = counts.events;
    const record = await recordOf(session, sources);
    let reason = record.reason;
    if (record.state === "valid" || record.state === "invalid") {
      try {
        const later = await readSentLater(session.ledger);
        for await (const event of eventsOf(session.ledger, terms)) {
          // A stream that goes on has no end on record yet.
          const { outcome } = event;
          const counted = later.get(event.common.event_id) ?? 0;
          counts.add(event, session.name, Math.max(counted, outcome?.streamed_bytes ?? 0));
        }
        for (const ask of await asksOf(session, terms)) add("asks", ask);
        const { findings, isCut } = await findingsOf(session, terms, sources);
        for (const finding of findings) add("findings", finding);
        if (isCut) cut.add("findings");
      } catch (error) {
        record.state = "unreadable";
        reason ??= (error as Error).message;
      }
    }
    const { id, name: vm, profile_id, created_at, ended_at, user, client, agent } = session;
    addSession({
      id,
      vm,
      profile_id,
      created_at,
      ...(ended_at !== undefined && { ended_at }),
      ...(user !== undefined && { user }),
      ...(client !== undefined && { client }),
      ...(agent !== undefined && { agent }),
      events: counts.events - before,
      record: { ...record, ...(reason !== undefined && { reason }) },
    });
  }
  const { cut: ofCounts, ...counted } = counts.report();
  return {
    schema: "sbx.report.v1",
    generated_unix_ms: Date.now(),
    ...(terms.since !== undefined && { since_unix_ms: terms.since }),
    ...(terms.until !== undefined && { until_unix_ms: terms.until }),
    ...counted,
    sessions: lists.sessions,
    asks: lists.asks.toSorted((a, b) => a.at.localeCompare(b.at)),
    findings: lists.findings.toSorted((a, b) => a.at_unix_ms - b.at_unix_ms),
    cut: [...ofCounts, ...cut],
  };
}

async function recordOf(
  { ledger, id }: RecordedSession,
  { checkSeal, witnessOf }: ReportSources,
): Promise<Report["sessions"][number]["record"]> {
  try {
    const { ok, sealed, signed_by, first_bad } = await verifyLedger(
      ledger,
      id,
      checkSeal,
      await witnessOf?.(id),
    );
    return {
      state: ok ? "valid" : "invalid",
      sealed,
      ...(signed_by?.trusted && { signed_by: signed_by.id }),
      ...(first_bad && { reason: first_bad.reason }),
    };
  } catch (error) {
    const isAbsent = error instanceof SbxError && error.code === "ledger.not_found";
    const reason = (error as Error).message;
    return { state: isAbsent ? "none" : "unreadable", sealed: false, ...(!isAbsent && { reason }) };
  }
}

function isBad({ record: { state } }: Report["sessions"][number]): boolean {
  return state === "invalid" || state === "unreadable";
}

function isWithin(at: number, { since, until }: ReportTerms): boolean {
  return (since === undefined || at >= since) && (until === undefined || at < until);
}

async function asksOf({ ledger, name }: RecordedSession, terms: ReportTerms): Promise<Report["asks"]> {
  // One more than is shown, so that the cut is seen.
  const asks = await readApprovals<AskRecord>(ledger, { ...terms, limit: ROWS_MAX + 1 });
  return asks
    .map(({ created_at: at, subject, rule_id, status, answered_by, by_rule }) => ({
      vm: name,
      at,
      subject,
      rule_id,
      status,
      ...(answered_by && { answered_by: answered_by.user }),
      ...(by_rule !== undefined && { answered_by: `rule ${by_rule}` }),
    }));
}

async function findingsOf(
  { ledger, name: vm }: RecordedSession,
  terms: ReportTerms,
  sources: ReportSources,
): Promise<{ findings: Report["findings"]; isCut: boolean }> {
  const all = await sources.findings(ledger, FINDINGS_READ);
  const findings = all.filter(({ timestamp_unix_ms = 0 }) => isWithin(timestamp_unix_ms, terms)).map(
    (finding) => {
      const { severity, title, rule_id, event_id, decision, states, exception, subject = "" } = finding;
      const last = states?.at(-1);
      return {
        vm,
        at_unix_ms: finding.timestamp_unix_ms ?? 0,
        severity,
        title,
        rule_id,
        event_id,
        decision: decision?.outcome ?? "observed",
        state: last?.status ?? (exception === undefined ? "new" : "excepted"),
        ...(last?.verdict && { verdict: last.verdict }),
        subject,
      };
    },
  );
  return { findings, isCut: all.length >= FINDINGS_READ };
}
