/** The report: what left is what was sent, and each record is checked. */
import { assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { type ListedFinding, Report } from "../../../lib/client/api/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { Ledger, type LedgerOutcome, type LedgerRow } from "../../../lib/ledger/mod.ts";
import { makeReport, type RecordedSession } from "../../../lib/service/mod.ts";
import { sessionPaths } from "../../../lib/session/files/mod.ts";
import { execEvent, requestEvent, runSql } from "../../helper/ledger.ts";

const ID = "00000000-0000-4000-8000-000000000001";
const START = Date.UTC(2026, 10, 22);

type Row = [event: Event, decision?: string, outcome?: Partial<LedgerOutcome>];

interface More {
  findings?: ListedFinding[];
  /** before the one of the rows */
  sessions?: (session: RecordedSession) => RecordedSession[];
}

async function withReport(
  rows: Row[],
  run: (
    make: (terms?: { since?: number }, more?: More) => Promise<Report>,
    ledger: string,
  ) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const { ledger: path } = sessionPaths(home, ID);
  try {
    await Deno.mkdir(dirname(path), { recursive: true });
    {
      await using ledger = await Ledger.open(path, { sessionId: ID });
      for (const [at, [event, decision, outcome]] of rows.entries()) {
        Object.assign(event.common, { session_id: ID, timestamp_unix_ms: START + at * 1000 });
        ledger.append({
          event,
          ...(decision && { decision: { decision, rule: { id: "rule-1" } } }),
          rows: [{
            table: "statements",
            record: {
              statement_id: event.common.event_id,
              kind: "spending",
              event_id: event.common.event_id,
              bytes_out: at === 1 ? 1000 : 0,
            } as { statement_id: string; kind: string },
          }],
        });
        if (outcome) ledger.end({ ...outcome, event_id: event.common.event_id });
      }
    }
    const session: RecordedSession = {
      id: ID,
      name: "web",
      profile_id: "dev",
      profile_revision: "1",
      created_at: new Date(START).toISOString(),
      agent: "claude",
      ledger: path,
    };
    await run(async (terms = {}, { findings = [], sessions = () => [] } = {}) => {
      const report = await makeReport([...sessions(session), session], terms, {
        findings: (_, limit) => Promise.resolve(findings.slice(0, limit)),
      });
      return Report.parse(report);
    }, path);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const http = (host: string, bytes: number) => requestEvent("http.request", { host, bytes });
const response = { status: 200, bytes: 7, headers: {}, body: { state: "missing", truncated: false } };

Deno.test("report: a body of unknown length is sent with the bytes of its end, which no budget needs to count", () =>
  withReport([
    [http("sent.example", 100), "allow", { response }],
    [http("counted.example", 100), "allow", { response, streamed_bytes: 900 }],
    [http("streamed.example", 100), "allow", { response, streamed_bytes: 5_000_000 }],
    [http("lost.example", 100), "allow", { error: "connection reset", streamed_bytes: 700 }],
  ], async (make) => {
    const { left } = await make();
    const facts = left.map((row) => [row.host, row.sent_bytes, row.failed_bytes]);
    assertEquals(facts.toSorted(([a], [b]) => String(a).localeCompare(String(b))), [
      // A budget of bytes counted this one.
      ["counted.example", 1100, 0],
      ["lost.example", 0, 800],
      ["sent.example", 100, 0],
      ["streamed.example", 5_000_100, 0],
    ]);
  }));

Deno.test("report: refused, waiting, cached and failed requests are not sent", () =>
  withReport([
    [http("sent.example", 100), "allow", { response }],
    [http("sent.example", 10), "allow", { response }],
    [http("refused.example", 5000), "block"],
    [http("waits.example", 5000), "ask"],
    [http("cached.example", 50), "allow", { response: { ...response, cache_digest: "d" } }],
    [http("failed.example", 60), "allow", { error: "connection reset" }],
    [http("denied.example", 70), "ask", { decision: { decision: "block", rule: { id: "rule-1" } } }],
    [execEvent("ls")],
  ], async (make) => {
    const { left, programs, refused, events, sessions, hours } = await make();
    const facts = left.map((row) => [row.host, row.sent_bytes, row.failed_bytes, row.refused, row.cached]);
    assertEquals(facts.toSorted(([a], [b]) => String(a).localeCompare(String(b))), [
      ["cached.example", 0, 0, 0, 1],
      ["denied.example", 0, 0, 1, 0],
      ["failed.example", 0, 60, 0, 0],
      ["refused.example", 0, 0, 1, 0],
      // With what its stream sent after the decision.
      ["sent.example", 1110, 0, 0, 0],
      ["waits.example", 0, 0, 1, 0],
    ]);
    assertEquals(programs, [{ vm: "web", executable: "/bin/ls", runs: 1, refused: 0 }]);
    assertEquals(refused, [{ vm: "web", rule_id: "rule-1", event_type: "http.request", events: 2 }]);
    assertEquals([events, hours], [8, [{ at_unix_ms: START, events: 8, refused: 2 }]]);
    assertEquals(sessions[0].record, { state: "valid", sealed: true });
    assertEquals(sessions[0].agent, "claude");
    assertEquals((await make({ since: START + 7000 })).events, 1);
  }));

Deno.test("report: a record that was changed is named as invalid", () =>
  withReport([[http("a.example", 1), "allow", { response }]], async (make, path) => {
    await runSql(path, "UPDATE entries SET event = replace(event, 'a.example', 'b.example')");
    const [{ record }] = (await make()).sessions;
    assertEquals([record.state, typeof record.reason], ["invalid", "string"]);
  }));

Deno.test("report: a guest that makes up hosts makes no report without end, and its sums stay right", () =>
  withReport(
    Array.from({ length: 1010 }, (_, at): Row => [http(`h${at}.example`, 1), "allow", { response }]),
    async (make) => {
      const { left, cut } = await make();
      assertEquals([left.length, cut], [1001, ["left"]]);
      assertEquals([left.at(-1)!.host, left.reduce((sum, row) => sum + row.sent_bytes, 0)], [
        "(others)",
        1010 + 1000,
      ]);
    },
  ));

Deno.test("report: questions and findings of before hide none of the time of the report", () =>
  withReport([[http("a.example", 1), "allow", { response }]], async (make, path) => {
    const since = START + 3_600_000;
    const askOf = (ask_id: string, at: number) => ({
      ask_id,
      event_id: "000000000001",
      created_at: new Date(at).toISOString(),
      subject: ask_id,
      rule_id: "rule-1",
      status: "denied",
    });
    {
      await using ledger = await Ledger.open(path, { sessionId: ID });
      const add = (record: ReturnType<typeof askOf>) =>
        ledger.add({ rows: [{ table: "approvals", record } as unknown as LedgerRow] });
      for (let at = 0; at < 1001; at++) add(askOf(`ask-${at}`, START));
      add(askOf("late", since));
    }
    const findings = Array.from({ length: 1001 }, (_, at) => ({
      severity: "low",
      title: "t",
      rule_id: at < 1000 ? "early" : "late",
      event_id: "000000000001",
      timestamp_unix_ms: at < 1000 ? START : since,
    })) as unknown as ListedFinding[];
    const late = await make({ since }, { findings });
    assertEquals([late.asks.map(({ subject }) => subject), late.findings.map(({ rule_id }) => rule_id)], [
      ["late"],
      ["late"],
    ]);
    assertEquals([late.cut, (await make({}, { findings })).cut], [[], ["asks", "findings"]]);
  }));

Deno.test("report: a record that cannot be trusted is named beside more sessions than a report has", () =>
  withReport([[http("a.example", 1), "allow", { response }]], async (make, path) => {
    await runSql(path, "UPDATE entries SET event = replace(event, 'a.example', 'b.example')");
    const sessions = (session: RecordedSession) =>
      Array.from({ length: 1000 }, (_, at) => ({ ...session, id: `s${at}`, ledger: `${path}.none` }));
    const report = await make({}, { sessions });
    assertEquals([report.sessions.length, report.cut], [1000, ["sessions"]]);
    assertEquals(report.sessions.at(-1)!.record.state, "invalid");
  }));

Deno.test("report: a guest's long names fill neither memory nor tables", () => {
  const long = "n".repeat(100_000);
  const exec = execEvent();
  exec.process!.activity.executable = `/${long}`;
  return withReport(
    [[exec, "allow"], [http(`${long}.example`, 1), "allow", { response }]],
    async (make) => {
      const { programs, left } = await make();
      assertEquals([programs[0].executable.length, left[0].host.length], [256, 256]);
    },
  );
});
