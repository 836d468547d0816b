/** The laboratory with the rules in force reports no difference; with a changed rule, the change alone. */
import { assertEquals } from "@std/assert";
import { type LabEvent, runLab } from "../../../lib/lab/mod.ts";
import { compileLayers, Replay, type RuleLayers } from "../../../lib/policy/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import type { NarrowingRules } from "../../../lib/policy/author/schema.ts";
import { call, git, lookup, program, recorded, tool, touch, web } from "../../helper/recording.ts";

const allow = (id: string, match: string) => rule(id, "allow", match);
const rule = (id: string, action: string, match: string) =>
  `[profiles.rules.${id}]\naction = "${action}"\nmatch = '${match}'\n`;

const WEB = allow("web", 'http.request.host.endsWith(".example")');
const PROFILE = WEB +
  allow("names", 'dns.request.qname.endsWith(".example")') +
  allow("tools", 'mcp.request.server_name == "files"') +
  allow("models", 'model.request.provider == "anthropic"') +
  allow("tables", 'has(db.request) && db.request.kind == "read"') +
  allow("programs", 'common.event_type == "process.exec"') +
  allow("files", 'common.event_type == "file.activity"') +
  `${rule("rest", "block", "true")}priority = 900\n` +
  rule("ask-upload", "ask", 'http.request.method == "PUT"') +
  rule(
    "few",
    "block",
    'http.request.path == "/burst" && history.count("http.request", "http.request.path == \\"/burst\\"", "1h") >= 1',
  );

const CORP = parseRules(
  `[corp.rules.no-rm]\naction = "block"\npriority = -100\nmatch = 'process.activity.executable == "rm"'\n`,
  "corp.toml",
);
const PROJECT: NarrowingRules = [{
  id: "no-admin",
  action: "block",
  match: 'http.request.path == "/admin"',
}];

const layers = (text = PROFILE, project = PROJECT): RuleLayers => ({
  corp: { rules: CORP },
  profile: { rules: parseRules(text, "profile.toml") },
  ...project.length > 0 && { project },
});

const query = (kind: string): LabEvent =>
  recorded("db.statement", {
    db: { request: { system: "postgres", host: "db.example", port: 5432, kind, statement: kind } },
  });

const ssh = (): LabEvent => {
  const event = web("https://git.example/", { method: "CONNECT" });
  return { ...event, common: { ...event.common, labels: { protocol: "ssh" } } } as LabEvent;
};

const answered = (decision: string) => ({ ...web("https://up.example/a", { method: "PUT" }), decision });

/** Events of every kind; without a decision: the rules decide. */
const EVENTS: LabEvent[] = [
  web("https://api.example/v1"),
  {
    ...web("https://slow.example/"),
    http: { ...web("https://slow.example/").http!, response: { status: 200 } },
  },
  web("https://api.example/burst"),
  web("https://api.example/burst"),
  web("https://api.example/admin"),
  web("https://other.test/"),
  lookup("api.example"),
  lookup("inside.example", ["10.0.0.1"]),
  tool("files", "read"),
  tool("shell", "run"),
  call("claude-sonnet-4-5"),
  git("git.example", "/team/app.git", "refs/heads/main"),
  query("read"),
  query("write"),
  ssh(),
  program("make test", "vm"),
  program("rm -rf /", "vm"),
  touch("/workspace/a.ts", "write"),
] as LabEvent[];

/** What the rules did not decide alone: guards, budgets and people. */
const OTHERS: LabEvent[] = [
  { ...web("https://api.example/odd"), decision: "block", rule_id: "guard-malformed-http" },
  { ...web("https://api.example/spent"), decision: "block", rule_id: "budget-per_day_requests" },
  { ...call("claude-sonnet-4-5"), decision: "allow", rule_id: "budget-usd" },
  { ...answered("allow"), rule_id: "ask-upload" },
  { ...answered("block"), rule_id: "ask-upload" },
];

/** As a VM with these rules records them. */
function ledger(): LabEvent[] {
  const replay = new Replay(compileLayers(layers()));
  return [
    ...EVENTS.map((event) => {
      const { decision: { decision, rule } } = replay.evaluate(event);
      return { ...event, decision, rule_id: rule.id };
    }),
    ...OTHERS,
  ];
}

async function lab(rules: RuleLayers, events = ledger()) {
  const report = await runLab({ sessions: [{ id: "s", events }], packs: [], rules, baseline: { packs: [] } });
  return { ok: report.ok, ...report.policy! };
}

Deno.test("the rules in force: no difference, whoever decided", async () => {
  const recorded = ledger();
  const deciders = recorded.map(({ rule_id }) => rule_id);
  for (const id of ["no-rm", "project.no-admin", "few", "rest", "web", "tables", "tools", "models"]) {
    assertEquals([id, deciders.includes(id)], [id, true]);
  }
  const report = await lab(layers());
  assertEquals([report.ok, report.changes, report.failures], [true, [], []]);
  assertEquals([report.guarded, report.asked], [3, 2]);
  assertEquals(report.decided, recorded.length - 3);
});

Deno.test("the rules in force without the project's file: what it took away stays away", async () => {
  const { changes } = await lab(layers(PROFILE, []));
  assertEquals(changes, []);
});

Deno.test("a changed rule reports its own differences", async () => {
  const blocked = await lab(layers(PROFILE.replace('kind == "read"', 'kind == "write"')));
  assertEquals(blocked.changes, [
    { from: "allow", to: "block", count: 1 },
    { from: "block", to: "allow", count: 1 },
  ]);
  const decided = await lab(layers(PROFILE.replace(/"ask"/, '"block"')));
  assertEquals(decided.changes, [{ from: "allow", to: "block", count: 1 }]);
  const corpless = await lab({ ...layers(), corp: { rules: [] } });
  assertEquals(corpless.released.rows.map(({ rule_id }) => rule_id), ["programs"]);
});

Deno.test("a call that a person let past a budget is part of the history that rules count", async () => {
  const asked = { ...web("https://api.example/burst"), decision: "allow", rule_id: "budget-requests" };
  const next = { ...web("https://api.example/burst"), decision: "block", rule_id: "few" };
  assertEquals((await lab(layers(), [asked, next])).changes, []);
});
