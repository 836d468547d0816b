/** Export of findings from real ledgers to a real collector. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { FindingExport } from "../../../lib/service/record/export.ts";
import { Sessions } from "../../../lib/service/mod.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { requestEvent } from "../../helper/ledger.ts";
import { recordOf } from "../../helper/vm.ts";

interface Given {
  home: Home;
  findings: FindingExport;
  sessions: Sessions;
  /** paths of the requests that the collector got */
  got: string[];
  /** status that the collector answers with */
  answer: { status: number };
  /** writes corp.toml and settings.toml and puts them in force */
  configure(files: { corp?: string; settings?: string }): Promise<void>;
  /** records a finding in a session's ledger */
  record(finding?: { export_routes?: string[] }): Promise<string>;
  url: string;
}

async function withExport(run: (given: Given) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const got: string[] = [];
  const answer = { status: 204 };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    await request.body?.cancel();
    got.push(new URL(request.url).pathname);
    return new Response(null, { status: answer.status });
  });
  const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
  const settings = await SettingsStore.open({
    home,
    corp,
    definitions: await loadDefinitions({ get: () => undefined }),
  });
  const sessions = new Sessions(home);
  const findings = new FindingExport(home, settings, corp, sessions);
  let number = 0;
  try {
    await Deno.mkdir(join(dir, "ledgers"));
    await run({
      home,
      findings,
      sessions,
      got,
      answer,
      url: `http://127.0.0.1:${server.addr.port}`,
      configure: async (files) => {
        for (const [name, text] of Object.entries(files)) {
          await Deno.writeTextFile(join(dir, `${name}.toml`), text);
        }
        await settings.reload();
        findings.reconfigure();
      },
      record: async (finding = {}) => {
        const id = `s${++number}`;
        const { ledger: path } = sessionPaths(home, id);
        await Deno.mkdir(dirname(path), { recursive: true });
        const event = requestEvent("http.request");
        const { event_id } = event.common;
        const base = { pack_id: "p", title: "T", severity: "low", confidence: "low", tags: [] };
        const rows = [{ finding_id: `finding-${id}`, event_id, rule_id: "r", ...base, ...finding }];
        await using ledger = await Ledger.open(path, { sessionId: id });
        ledger.append({ event, findings: rows });
        return id;
      },
    });
  } finally {
    await findings.close();
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
}

async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!await condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

const TELEMETRY = (url: string) =>
  `[settings."telemetry.enabled"]\nvalue = true\n[settings."telemetry.endpoint"]\nvalue = "${url}"\n`;

async function audited({ home }: Given): Promise<number> {
  const text = await Deno.readTextFile(join(home.logsDir, "findings.jsonl")).catch(() => "");
  return text.split("\n").length - 1;
}

Deno.test("findings stay on the machine while corp has switched telemetry off, and leave it again after", () =>
  withExport(async (given) => {
    const { configure, url, record, findings, got } = given;
    await configure({ settings: TELEMETRY(url), corp: '[settings."telemetry.enabled"]\nenabled = false\n' });
    await record();
    await findings.begin();
    await waitUntil(async () => await audited(given) === 1);
    assertEquals(got, []);
    await configure({ corp: "" });
    await record();
    await findings.begin();
    await waitUntil(() => got.length > 0);
    assertEquals(got, ["/v1/logs"]);
  }));

Deno.test("a finding goes to the sinks that its pack names", () =>
  withExport(async ({ configure, url, record, findings, got }) => {
    await configure({
      corp: `[corp_rule_files]\nsigma_output_endpoint = "${url}/ocsf"\nopen_telemetry = "${url}/otlp"\n`,
    });
    await record({ export_routes: ["http"] });
    await record({ export_routes: ["otlp"] });
    await findings.begin();
    await waitUntil(() => got.length >= 2);
    await findings.close();
    assertEquals(got.toSorted(), ["/ocsf", "/otlp/v1/logs"]);
  }));

Deno.test("a finding goes out with the maker of its session, or without one that is not known", () =>
  withExport(async (given) => {
    const { home, record, findings, sessions } = given;
    const made_by = { user: "ann", device: "desk", client: "sbx-mcp/1 (claude-code/2)" };
    sessions.put({ ...recordOf(await record(), "dev"), made_by });
    await record();
    await findings.begin();
    await waitUntil(async () => await audited(given) === 2);
    const lines = (await Deno.readTextFile(join(home.logsDir, "findings.jsonl"))).trim().split("\n");
    const makers = lines.map((line) => JSON.parse(line).made_by?.client ?? "unknown");
    assertEquals(makers.toSorted(), [made_by.client, "unknown"]);
  }));

Deno.test("a session without a record, whose VM never booted, keeps nothing back", () =>
  withExport(async ({ home, findings }) => {
    await Deno.mkdir(join(home.dir, "ledgers", crypto.randomUUID()));
    await findings.begin();
    await findings.close();
    assertEquals(findings.problems(), []);
  }));

Deno.test("a record whose mark cannot be read sends no finding again, and is a problem", () =>
  withExport(async ({ home, configure, url, record, findings, got }) => {
    await configure({ settings: TELEMETRY(url) });
    const { ledger } = sessionPaths(home, await record());
    await Deno.mkdir(`${ledger}.exported`);
    await findings.begin();
    await waitUntil(() => findings.problems().length > 0);
    assertStringIncludes(findings.problems()[0], `findings are not exported: reading ${ledger}.exported`);
    await findings.close();
    assertEquals(got, []);
  }));

Deno.test("a sink in trouble is a problem until it answers, also after a restart and without a new finding", () =>
  withExport(async ({ home, configure, url, record, findings, got, answer }) => {
    answer.status = 500;
    await configure({ corp: `[corp_rule_files]\nopen_telemetry = "${url}"\n` });
    assertEquals(findings.problems(), []);
    await record();
    await findings.begin();
    await waitUntil(() => findings.problems().length > 0);
    assertStringIncludes(findings.problems()[0], 'findings wait for the sink "otlp"');
    assertStringIncludes(findings.problems()[0], "status 500");
    await findings.close();

    answer.status = 204;
    got.length = 0;
    const corp = new CorpStore(home, { managed: join(home.dir, "corp.toml") });
    const definitions = await loadDefinitions({ get: () => undefined });
    const settings = await SettingsStore.open({ home, corp, definitions });
    const next = new FindingExport(home, settings, corp, new Sessions(home));
    await next.begin();
    await waitUntil(() => got.length === 1);
    await waitUntil(() => next.problems().length === 0);
    await next.close();
  }));

Deno.test("a finding goes out with what was decided and the VM's name, and once more when its ask is answered", () =>
  withExport(async ({ home, findings, sessions }) => {
    sessions.put(recordOf("asked", "dev"));
    const { ledger: path } = sessionPaths(home, "asked");
    await Deno.mkdir(dirname(path), { recursive: true });
    const event = requestEvent("http.request");
    const { event_id } = event.common;
    const base = { pack_id: "p", title: "T", severity: "low", confidence: "low", tags: [] };
    const rule = { id: "wary", name: "wary", layer: "profile" };
    const decision = { event_id, decision: "ask", rule, rewrites: [], matched_fields: [], near_misses: [] };
    const read = async () => {
      const text = await Deno.readTextFile(join(home.logsDir, "findings.jsonl")).catch(() => "");
      return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    };
    await using ledger = await Ledger.open(path, { sessionId: "asked" });
    ledger.append({
      event,
      decision,
      findings: [{ finding_id: "f", event_id, rule_id: "r", ...base }] as never,
    });
    await ledger.flush();
    await findings.begin();
    await waitUntil(async () => (await read()).length === 1);
    findings.queueSession("asked");
    ledger.end(
      { event_id, decision: { ...decision, decision: "block", answered: { status: "denied" } } } as never,
    );
    await ledger.flush();
    findings.queueSession("asked");
    await waitUntil(async () => (await read()).length === 2);
    const sent = (await read()).map((
      { vm_name, decision, is_update },
    ) => [vm_name, decision.outcome, is_update]);
    assertEquals(sent, [["dev", "ask", undefined], ["dev", "ask-denied", true]]);
    findings.queueSession("asked");
    await findings.close();
    assertEquals((await read()).length, 2);
  }));
