/** Rules with the action `observe`: they find, and no decision depends on them. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type LabEvent, runLab } from "../../../lib/lab/mod.ts";
import {
  completeEvent,
  lintPolicy,
  parseRules,
  parseTests,
  runTests,
} from "../../../lib/policy/author/mod.ts";
import { compileLayers, compilePolicy, type Draft, type Rule, Watch } from "../../../lib/policy/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { httpRequest } from "../../helper/event.ts";

const observe = (match: string, { id = "seen", layer = "profiles.rules", more = "" } = {}) =>
  `[${layer}.${id}]\naction = "observe"\nmatch = '''${match}'''\n${more}\n`;
const policyOf = (text: string) => compilePolicy(parseRules(text, "r.toml"));

const draft = (host: string): Draft => ({
  common: { event_type: "http.request", source_engine: "network" },
  http: { request: httpRequest({ host }) },
});

let id = 0;
function request(host: string, more: Record<string, unknown> = {}, session_id = "s1"): LabEvent {
  const event_id = (++id).toString(16).padStart(12, "0");
  return completeEvent({
    schema_version: 1,
    common: { event_type: "http.request", event_id, timestamp_unix_ms: 1_000_000 + id * 1000, session_id },
    http: { request: { host, method: "GET", path: "/", scheme: "https", ...more } },
  }) as LabEvent;
}

const DECIDING = `[profiles.rules.stop]\naction = "block"\nmatch = 'http.request.host == "b.example"'\n`;
const rulesOf = (findings: { rule_id: string }[]) => findings.map(({ rule_id }) => rule_id);

Deno.test("an observing rule of any layer and priority changes no decision, and no part of its record", () => {
  const watching = [
    observe("true", { id: "all", layer: "corp.rules", more: "priority = -1000" }),
    observe('http.request.host == "b.example"', { more: 'priority = 10\ndetection_level = "high"' }),
    observe('http.request.body.text.contains("x")', { id: "body" }),
    observe('process.activity.executable == "/bin/sh"', { id: "sh" }),
    observe('file.activity.path.startsWith("/etc")', { id: "etc" }),
    observe('common.event_type == "model.call"', { id: "model" }),
    // Fails on every event that it is evaluated on.
    observe('history.count("http.request", "true", "1h") > 0', { id: "unknown" }),
  ].join("");
  const [plain, watched] = [policyOf(DECIDING), policyOf(DECIDING + watching)];
  for (const host of ["a.example", "b.example", "10.0.0.1"]) {
    const event = request(host);
    assertEquals(watched.evaluate(event), plain.evaluate(event));
    assertEquals(
      watched.evaluate(event, { explain: true }).decision,
      plain.evaluate(event, { explain: true }).decision,
    );
  }
  for (const part of ["model", "http.request.body", "process", "http.request.git"]) {
    assertEquals(watched.reads(part), plain.reads(part), part);
  }
  assertEquals(watched.restrictsPrograms, plain.restrictsPrograms);
  assertEquals(watched.restrictsFiles, plain.restrictsFiles);
  assertEquals(watched.decidesByFile("process.exec"), plain.decidesByFile("process.exec"));
  assertEquals(watched.rules.map(({ rule }) => rule.id), plain.rules.map(({ rule }) => rule.id));
  assertEquals(watched.all.length, plain.rules.length + 7);
});

Deno.test("it finds in allowed, blocked, refused and observed events, and once the response is there", async () => {
  const gate = new TestGate(
    DECIDING + observe('http.request.host.endsWith(".example")', { more: 'name = "a host"' }) +
      observe("http.response.status == 500", { id: "failed", more: 'detection_level = "critical"' }) +
      observe('file.activity.path == "/etc/passwd"', { id: "file" }),
  );
  const passage = await gate.decide(draft("a.example"));
  assertEquals(gate.entries.map(({ findings = [] }) => rulesOf(findings)).flat(), []);
  const found = () =>
    gate.notices.flatMap((notice) => notice.type === "finding" ? [notice.payload] : []).map((
      { rule_id, severity, title, pack_id },
    ) => [rule_id, severity, title, pack_id]);
  assertEquals(found(), [["seen", "medium", "a host", "policy.profile"]]);
  passage.finish({ response: { status: 500, headers: {} } });
  assertEquals(found().slice(1), [["failed", "critical", "failed", "policy.profile"]]);
  assert(!(await gate.decide(draft("b.example"))).allowed);
  gate.refuse(draft("c.example"), { id: "guard-relay", reason: "r" });
  gate.observe({
    common: { event_type: "file.activity", source_engine: "file" },
    file: { activity: { operation: "read", path: "/etc/passwd" } },
  } as never);
  assertEquals(found().slice(2).map(([rule]) => rule), ["seen", "seen", "file"]);
});

Deno.test("readings that lenient servers have are found too, each rule once", () => {
  const policy = policyOf(
    observe('http.request.path == "/admin"') + observe('http.request.method == "DELETE"', { id: "m" }),
  );
  const event = request("a.example", {
    path: "/admin",
    headers: { "x-http-method-override": ["DELETE"] },
  });
  assertEquals(rulesOf(policy.observe(event).findings), ["m", "seen"].sort());
  assertEquals(rulesOf(policy.observe(request("a.example", { path: "/%61dmin/" })).findings), ["seen"]);
  // A request that names more methods than are read has been blocked: the rule sees it as it came.
  const named = Array.from({ length: 20 }, (_, at) => "A".repeat(at + 1));
  const flooded = request("a.example", { path: "/admin", headers: { "x-http-method-override": named } });
  assertEquals(rulesOf(policy.observe(flooded).findings), ["seen"]);
});

Deno.test("history in an observing rule: the record gives what the VM found, session by session", async () => {
  const text = observe('http.request.host == "a.example" && !history.seen("http.request.host", "1h")') +
    observe('history.count("http.request", "true", "1h") >= 2', { id: "many" }) + DECIDING;
  const gate = new TestGate(text);
  const hosts = ["a.example", "b.example", "a.example", "c.example", "c.example"];
  for (const host of hosts) (await gate.decide(draft(host))).finish();
  const live = gate.notices.flatMap((notice) =>
    notice.type === "finding" ? [[notice.payload.event_id, notice.payload.rule_id]] : []
  );
  assertEquals(live.map(([, rule]) => rule), ["seen", "many", "many"]);
  const watch = new Watch(policyOf(text));
  const events = gate.notices.flatMap((notice) => notice.type === "security-event" ? [notice.payload] : []);
  const replayed = events.flatMap(({ event, decision }) =>
    watch.observe(event, decision?.decision).findings.map(({ event_id, rule_id }) => [event_id, rule_id])
  );
  assertEquals(replayed, live);
  // Another session knows nothing of this one.
  const other = watch.observe(request("a.example", {}, "s2"), "allow");
  assertEquals(rulesOf(other.findings), ["seen"]);
});

Deno.test("a rule that fails is a failure, and not a match", () => {
  const policy = policyOf(
    observe('history.seen("http.request.host", "1h")') + observe("true", { id: "other" }),
  );
  const { findings, failures } = policy.observe(request("a.example"));
  assertEquals(rulesOf(findings), ["other"]);
  assertStringIncludes(failures[0].message, "the history of the VM is not known here");
});

Deno.test("the laboratory counts what candidates find, beside the baseline's; decisions stay", async () => {
  const layers = (text: string) => ({
    corp: { rules: [] as Rule[] },
    profile: { rules: parseRules(text, "r.toml") },
  });
  const events = ["a.example", "a.example", "b.example"].map((host) => ({
    ...request(host),
    decision: host === "b.example" ? "block" : "allow",
  })) as LabEvent[];
  for (const event of events) event.common.enforceability = "inline_blockable";
  const report = await runLab({
    sessions: [{ id: "s1", events }],
    packs: [],
    rules: layers(DECIDING + observe('http.request.host == "a.example"') + observe("true", { id: "new" })),
    baseline: { packs: [], rules: layers(DECIDING + observe("true") + observe("true", { id: "gone" })) },
  });
  assertEquals(
    report.rules.map(({ rule_id, pack_id, baseline, candidate }) => [rule_id, pack_id, baseline, candidate]),
    [["gone", "policy.profile", 3, 0], ["new", "policy.profile", 0, 3], ["seen", "policy.profile", 3, 2]],
  );
  assertEquals([report.policy?.changes, report.ok], [[], false]);
  assertEquals(report.lost.total_matches, 4);
});

Deno.test("policy tests see findings of observing rules", async () => {
  const line = JSON.stringify({
    when: {
      schema_version: 1,
      common: { event_type: "http.request" },
      http: { request: { host: "a.example" } },
    },
    then: { decision: "allow", findings: ["seen"] },
  });
  const report = await runTests(
    parseTests(line),
    "t.jsonl",
    () => policyOf(observe('http.request.host == "a.example"')),
  );
  assertEquals(report.results.map(({ message }) => message), [undefined]);
});

Deno.test("what an observing rule must not have, and what lint says of it", () => {
  for (
    const [text, message] of [
      [observe("true", { more: "ask_timeout = 5" }), "must not have ask_timeout"],
      [observe("true", { more: 'protocol = "tls"' }), "must not have protocol"],
      [observe("true", { more: 'rewrite = [{ op = "strip_header", path = "x" }]' }), "must not have rewrite"],
      [observe("true", { id: "block-private-http", layer: "default" }), "a default rule must not"],
      [
        observe('history.seen("http.request.host", "1h") && http.response.status == 200'),
        "reads a response or asks for history, not both",
      ],
    ]
  ) assertThrows(() => policyOf(text), Error, message);
  const lints = lintPolicy(policyOf(
    observe("true", { id: "all" }) +
      observe('http.request.method == "FETCH" && dns.request.qname == "x"', { id: "never" }) +
      `[profiles.rules.after]\naction = "block"\nmatch = 'http.request.host == "a.example"'\npriority = 20\n`,
  ));
  assertEquals(lints.map(({ code, rule_id }) => [code, rule_id]), [["always-true", "all"], [
    "never-true",
    "never",
  ]]);
  assertStringIncludes(lints[0].message, "makes a finding of every event");
  assertEquals(
    compileLayers({ corp: { rules: [] }, profile: { rules: [] } }).observers.rules.length,
    0,
  );
});
