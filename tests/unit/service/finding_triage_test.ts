/** The life of findings over a real ledger: states, exceptions in their file, groups, and the sinks. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { FindingExport } from "../../../lib/service/record/export.ts";
import { FindingTriage, Sessions } from "../../../lib/service/mod.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { eventCommon, httpRequest, processExec } from "../../helper/event.ts";
import type { Parsed } from "../../helper/json.ts";
import { recordOf } from "../../helper/vm.ts";

const BY = { user: "ann", client: "sbx/1" };
const CURL = { pid: 7, ppid: 1, executable: "curl", command: "curl", cwd: "" };

interface Given {
  home: Home;
  ledger: string;
  triage: FindingTriage;
  /** records an event with a finding, and returns the finding's id */
  record(event: unknown, rule_id?: string): Promise<string>;
  /** lines of findings.jsonl, as soon as there are so many */
  sent(count: number): Promise<Parsed[]>;
  exportAll(): Promise<void>;
}

async function withTriage(run: (given: Given) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
  const definitions = await loadDefinitions({ get: () => undefined });
  const settings = await SettingsStore.open({ home, corp, definitions });
  const sessions = new Sessions(home);
  sessions.put(recordOf("s1", "dev"));
  const findings = new FindingExport(home, settings, corp, sessions);
  const { ledger: path } = sessionPaths(home, "s1");
  await Deno.mkdir(dirname(path), { recursive: true });
  const ledger = await Ledger.open(path, { sessionId: "s1" });
  try {
    await run({
      home,
      ledger: path,
      triage: new FindingTriage(home, sessions, findings),
      record: async (event, rule_id = "upload") => {
        const { event_id } = (event as Event).common;
        const finding_id = `finding-${event_id}-${rule_id}`;
        const base = { pack_id: "p", title: "T", severity: "high", confidence: "low", tags: [] };
        ledger.append({
          event: event as Event,
          findings: [{ finding_id, event_id, rule_id, ...base }] as never,
        });
        await ledger.flush();
        return finding_id;
      },
      exportAll: () => findings.begin(),
      sent: async (count) => {
        for (;;) {
          const text = await Deno.readTextFile(join(home.logsDir, "findings.jsonl")).catch(() => "");
          const lines = text.split("\n").filter(Boolean);
          if (lines.length >= count) return lines.map((line) => JSON.parse(line));
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      },
    });
  } finally {
    await ledger.close();
    await findings.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const http = (host: string) => ({
  schema_version: 1,
  common: eventCommon("http.request", { process: CURL }),
  http: { request: httpRequest({ host }) },
});
const lookup = (qname: string, qtype: string, at = 0) => ({
  schema_version: 1,
  common: eventCommon("dns.query", { timestamp_unix_ms: 1_700_000_000_000 + at }),
  dns: { request: { qname, qtype, transport: "udp" } },
});

Deno.test("triage: new, acknowledged, closed, by whom and why, in the list and in the sinks", () =>
  withTriage(async ({ ledger, triage, record, exportAll, sent }) => {
    const first = await record(http("a.example"));
    const event = http("b.example");
    const second = await record(event);
    await exportAll();
    await sent(2);
    assertEquals((await triage.list(ledger)).map(({ states }) => states), [undefined, undefined]);
    await triage.change(ledger, [first], { status: "acknowledged", reason: "I look at it" }, BY);
    const closed = { status: "closed", verdict: "false-positive", reason: "our own mirror" } as const;
    assertEquals(await triage.change(ledger, [event.common.event_id], closed, BY), [second]);
    const [{ states: [acknowledged] = [] }, { states = [] }] = await triage.list(ledger);
    assertEquals([acknowledged.status, acknowledged.by, acknowledged.reason], [
      "acknowledged",
      BY,
      "I look at it",
    ]);
    assertEquals(states.map(({ status, verdict }) => [status, verdict]), [["closed", "false-positive"]]);
    const updates = (await sent(4)).slice(2).map((
      { finding, state, is_update },
    ) => [finding.finding_id, state.status, state.verdict, state.by.user, is_update]);
    assertEquals(updates, [
      [first, "acknowledged", undefined, "ann", true],
      [second, "closed", "false-positive", "ann", true],
    ]);
    const error = await assertRejects(() => triage.change(ledger, [first, "nothing"], closed, BY), SbxError);
    assertEquals(error.code, "findings.not_found");
    assertEquals((await triage.list(ledger))[0].states?.length, 1, "a call that fails changes nothing");
  }));

Deno.test("triage: two changes at once are both kept, and a damaged file says so", () =>
  withTriage(async ({ ledger, triage, record }) => {
    const ids = await Promise.all(["a", "b", "c"].map((name) => record(http(`${name}.example`))));
    await Promise.all(ids.map((id) => triage.change(ledger, [id], { status: "acknowledged" }, BY)));
    assertEquals((await triage.list(ledger)).map(({ states }) => states?.length), [1, 1, 1]);
    await Deno.writeTextFile(`${ledger}.findings`, "{");
    const error = await assertRejects(() => triage.list(ledger), SbxError);
    assertEquals(error.code, "findings.unreadable");
  }));

Deno.test("an exception is made from a finding, says whom it is for, ends, and suppresses without hiding", () =>
  withTriage(async ({ home, ledger, triage, record, exportAll, sent }) => {
    const path = join(home.dir, "detection", "exceptions.toml");
    await Deno.mkdir(dirname(path));
    await Deno.writeTextFile(path, "# reviewed every Monday\n", { mode: 0o600 });
    const id = await record(http("mirror.example"));
    await record(http("other.example"));
    await record(http("mirror.example"), "another-rule");
    const request = { finding: id, of: ["host", "program"], days: 30, reason: "our mirror" } as const;
    const made = await triage.except(ledger, { ...request, of: [...request.of] }, BY);
    assertEquals([made.rule, made.host, made.program, made.vm, made.by], [
      "upload",
      "mirror.example",
      "curl",
      undefined,
      "ann",
    ]);
    assertStringIncludes(await Deno.readTextFile(path), "# reviewed every Monday\n");
    assertEquals((await triage.list(ledger)).map(({ exception }) => exception), [
      made.id,
      undefined,
      undefined,
    ]);
    await exportAll();
    assertEquals((await sent(3)).map(({ exception }) => exception), [made.id, undefined, undefined]);
    // Ended.
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, text.replace(made.expires, "2020-01-01T00:00:00.000Z"));
    assertEquals((await triage.list(ledger)).map(({ exception }) => exception), Array(3).fill(undefined));
    await triage.exceptions.remove(made.id);
    assertEquals(await triage.exceptions.list(), []);
    await assertRejects(() => triage.exceptions.remove(made.id), SbxError, "there is no exception");
    await assertRejects(
      () => triage.except(ledger, { finding: "none", of: ["vm"], days: 1, reason: "x" }, BY),
      SbxError,
      "no finding",
    );
  }));

Deno.test("a file of exceptions that is wrong, or that others may write, excepts nothing, and is not written", () =>
  withTriage(async ({ home, ledger, triage, record }) => {
    const path = join(home.dir, "detection", "exceptions.toml");
    await Deno.mkdir(dirname(path));
    const id = await record(http("a.example"));
    const good = 'rule = "upload"\nhost = "a.example"\nreason = "x"\nexpires = "2999-01-01T00:00:00Z"\n';
    const request = { finding: id, of: ["vm" as const], days: 1, reason: "x" };
    const cases: [text: string, mode: number][] = [
      [`[exceptions.a]\n${good}host_name = "b"\n`, 0o600],
      ['[exceptions.a]\nrule = "upload"\nreason = "x"\nexpires = "2999-01-01T00:00:00Z"\n', 0o600],
      [`[exceptions.a]\n${good}`.replace('reason = "x"\n', ""), 0o600],
      [`[exceptions.a]\n${good}`, 0o666],
      ["[exceptions", 0o600],
    ];
    for (const [text, mode] of cases) {
      await Deno.writeTextFile(path, text);
      await Deno.chmod(path, mode);
      assertEquals((await triage.list(ledger))[0].exception, undefined, text);
      await assertRejects(() => triage.except(ledger, request, BY), SbxError);
      assertEquals(await Deno.readTextFile(path), text);
    }
    await Deno.writeTextFile(path, `[exceptions.a]\n${good}`);
    await Deno.chmod(path, 0o600);
    assertEquals((await triage.list(ledger))[0].exception, "a");
    await Promise.all([1, 2, 3].map(() => triage.except(ledger, request, BY)));
    assertEquals((await triage.exceptions.list()).length, 4);
    assert((await Deno.stat(path)).mode! % 0o100 === 0, "no other user may read it");
  }));

Deno.test("lookups of one name and the start and end of one program are one group", () =>
  withTriage(async ({ ledger, triage, record }) => {
    const program = (operation: "exec" | "exit", pid: number, labels = {}) => ({
      schema_version: 1,
      common: eventCommon(operation === "exec" ? "process.exec" : "process.exit", {
        labels,
        ...(pid > 0 && { process: { ...CURL, pid } }),
      }),
      process: { activity: processExec({ operation, executable: "curl" }) },
    });
    const refusal = (afterMs: number, substitution: { location: string; host?: string }) => {
      const common = eventCommon("credential.substitution", { process: CURL });
      return {
        schema_version: 1,
        common: { ...common, timestamp_unix_ms: common.timestamp_unix_ms + afterMs },
        credential: {
          substitution: {
            provider: "github",
            credential_ref: `credential:blake3:${"0a".repeat(32)}`,
            outcome: "denied",
            ...substitution,
          },
        },
      };
    };
    const started = program("exec", 0);
    const events = [
      lookup("a.example", "A"),
      lookup("a.example", "AAAA", 20),
      lookup("b.example", "A", 20),
      lookup("a.example", "A", 60_000),
      program("exec", 7),
      program("exit", 7),
      program("exec", 7),
      started,
      program("exit", 0, { event_id: started.common.event_id }),
      http("a.example"),
      http("a.example"),
      refusal(0, { location: "name, in a piece" }),
      refusal(20, { location: "name, in a piece" }),
      refusal(20, { location: "body", host: "a.example" }),
      refusal(20, { location: "body", host: "a.example" }),
    ];
    for (const event of events) await record(event);
    const listed = await triage.list(ledger);
    const groups = [...new Set(listed.map(({ group }) => group))];
    assertEquals(listed.map(({ group }) => groups.indexOf(group)), [
      ...[0, 0, 1, 2, 3, 3, 4, 5, 5, 6, 7],
      ...[8, 8, 9, 10],
    ]);
  }));
