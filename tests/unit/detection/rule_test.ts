/** Sigma rules, compiled and run: refused constructs with their lines, fields, filters and correlations. */
import { assertEquals, assertMatch } from "@std/assert";
import type { Matchable } from "../../../lib/detection/mod.ts";
import { compileRules, type RuleOutcome } from "../../../lib/detection/rule/compile.ts";
import type { Placeholders } from "../../../lib/detection/rule/modifier.ts";
import { RuleEngine } from "../../../lib/detection/rule/run/engine.ts";
import { eventCommon, httpRequest, processExec } from "../../helper/event.ts";

function compile(text: string, placeholders: Placeholders = {}) {
  return compileRules([{ path: "r.yml", text }], { pack_id: "test", placeholders });
}

/** Text of a rule over started programs. @param more lines of its head */
function rule(detection: string, more = ""): string {
  return `title: Rule\n${more}logsource: {category: process_creation, product: linux}\ndetection:\n${
    detection.split("\n").map((line) => `  ${line}`).join("\n")
  }\n`;
}

function reasonsOf({ reasons }: RuleOutcome): string[] {
  return reasons.map(({ code, line }) => `${code}:${line}`);
}

function exec(
  command: string,
  more: { pid?: number; ppid?: number; at?: number; uid?: string; session?: string } = {},
) {
  const { pid = 5, ppid = 1, at = 0, uid = "0", session = "s" } = more;
  const [executable] = command.split(" ");
  const process = { pid, ppid, executable, command, cwd: "/" };
  return {
    common: eventCommon("process.exec", {
      process,
      labels: { uid },
      session_id: session,
      timestamp_unix_ms: 1_000_000 + at,
    }),
    process: { activity: processExec({ executable, command, cwd: "/" }) },
  } as unknown as Matchable;
}

/** Ids of the rules that match each event, in the order of the events. */
function matchesOf(text: string, events: Matchable[], placeholders?: Placeholders): string[][] {
  const { plan, outcomes } = compile(text, placeholders);
  const wrong = outcomes.filter(({ status }) => status !== "compiled");
  assertEquals(wrong.map(reasonsOf), []);
  const engine = new RuleEngine([plan]);
  return events.map((event) => engine.match(event).map(({ id }) => id));
}

/** Rules that do not compile, each with its reason and the line of that. */
const REFUSED: [name: string, text: string, reasons: string[]][] = [
  ["an unknown modifier", rule("sel: {Image|containz: x}\ncondition: sel"), [
    "modifier-unknown:4",
  ]],
  ["re behind contains", rule("sel: {Image|contains|re: x}\ncondition: sel"), ["modifier-combination:4"]],
  ["i without re", rule("sel: {Image|i: x}\ncondition: sel"), ["modifier-combination:4"]],
  ["base64 of a wildcard", rule("sel: {CommandLine|base64: 'a*'}\ncondition: sel"), ["value-encoding:4"]],
  ["contains null", rule("sel: {CommandLine|contains: null}\ncondition: sel"), ["value-type:4"]],
  ["gt of a text", rule("sel: {ProcessId|gt: many}\ncondition: sel"), ["value-type:4"]],
  ["exists of a text", rule("sel: {Image|exists: 'yes it is'}\ncondition: sel"), ["value-type:4"]],
  ["an invalid network", rule("sel: {Image|cidr: 10.0.0/99}\ncondition: sel"), ["cidr:4"]],
  ["an invalid regular expression", rule("sel: {Image|re: '(a'}\ncondition: sel"), ["regex:4"]],
  ["a look-behind", rule("sel: {Image|re: '(?<!a)b'}\ncondition: sel"), ["regex:4"]],
  ["a placeholder without values", rule("sel: {User|expand: '%Admins%'}\ncondition: sel"), ["placeholder:4"]],
  ["a map as value", rule("sel:\n  Image: {a: b}\ncondition: sel"), ["value-type:5"]],
  ["an empty list", rule("sel: {Image: []}\ncondition: sel"), ["value-type:4"]],
  ["an empty selection", rule("sel: {}\ncondition: sel"), ["selection:4"]],
  ["an unknown selection", rule("sel: {Image: a}\ncondition: sel and filter"), [
    "condition-selection:5",
  ]],
  ["a pattern without selections", rule("sel: {Image: a}\ncondition: 1 of filter_*"), [
    "condition-selection:5",
  ]],
  ["an aggregation", rule("sel: {Image: a}\ncondition: sel | count() > 5"), ["condition-aggregation:5"]],
  ["2 of", rule("sel: {Image: a}\ncondition: 2 of sel*"), ["condition:5"]],
  ["an open bracket", rule("sel: {Image: a}\ncondition: (sel"), ["condition:5"]],
  ["two terms", rule("sel: {Image: a}\ncondition: sel sel"), ["condition:5"]],
  ["no condition", rule("sel: {Image: a}"), ["condition:4"]],
  ["timeframe", rule("sel: {Image: a}\ntimeframe: 5m\ncondition: sel"), ["timeframe:5"]],
  ["a wrong level", rule("sel: {Image: a}\ncondition: sel", "level: hgih\n"), ["level:2"]],
  ["an action", rule("sel: {Image: a}\ncondition: sel", "action: global\n"), ["collection:2"]],
  ["another taxonomy", rule("sel: {Image: a}\ncondition: sel", "taxonomy: ecs\n"), ["taxonomy:2"]],
  ["no title", "logsource: {category: proxy}\ndetection: {sel: {c-uri: a}, condition: sel}", ["title:1"]],
  ["invalid YAML", "title: a\n  b: c\n", ["syntax:2"]],
  ["a document that is no map", "just text", ["not-a-rule:1"]],
];

for (const [name, text, reasons] of REFUSED) {
  Deno.test(`refused with construct and line: ${name}`, () => {
    const { plan, outcomes: [outcome] } = compile(text);
    assertEquals([outcome.status, reasonsOf(outcome)], ["refused", reasons], JSON.stringify(outcome));
    assertEquals(plan.rules, []);
  });
}

Deno.test("rules of other systems are not applicable, and rules over fields that no event has never match", () => {
  for (
    const logsource of [
      "{product: windows, category: process_creation}",
      "{product: aws, service: cloudtrail}",
    ]
  ) {
    const { outcomes } = compile(`title: A\nlogsource: ${logsource}\ndetection: {s: {a: b}, condition: s}`);
    assertEquals([outcomes[0].status, reasonsOf(outcomes[0])], ["not_applicable", ["not-applicable:2"]]);
  }
  const { outcomes: [never] } = compile(rule("sel: {Hashes|contains: MD5=, Image: a}\ncondition: sel"));
  assertEquals([never.status, reasonsOf(never)], ["never_matches", ["never-matches:3"]]);
  const { outcomes: [some] } = compile(rule("sel:\n  - Hashes: x\n  - Image: a\ncondition: sel"));
  assertEquals([some.status, some.warnings.map(({ message }) => message)], [
    "compiled",
    ['field "Hashes" is never there'],
  ]);
});

Deno.test("a rule's metadata is its findings' metadata, and unknown keys are ignored", () => {
  const text = rule("sel: {Image: a}\ncondition: sel").replace(
    "title: Rule\n",
    `title: Rule
id: 8A1B2C3D-0000-4000-8000-00000000000A
name: some_rule
related: [{id: 8a1b2c3d-0000-4000-8000-00000000000b, type: derived}]
status: experimental
description: d
author: me
date: 2024-01-02
modified: 2024/01/02
references: [https://example.com]
falsepositives: [Unlikely]
fields: [Image]
license: MIT
scope: [server]
taxonomy: sigma
x_own_key: {a: 1}
tags: [attack.execution, attack.t1059]
level: critical
`,
  );
  const { plan: { rules: [compiled] }, outcomes: [{ warnings }] } = compile(text);
  const { id, sigma_id, severity, confidence, tags } = compiled;
  assertEquals({ id, sigma_id, severity, confidence, tags, warnings }, {
    id: "8a1b2c3d-0000-4000-8000-00000000000a",
    sigma_id: "8a1b2c3d-0000-4000-8000-00000000000a",
    severity: "critical",
    confidence: "low",
    tags: ["attack.execution", "attack.t1059"],
    warnings: [],
  });
});

Deno.test("placeholders stand for each of their values, and \\% is a percent sign", () => {
  const text = rule("sel: {CommandLine|expand|endswith: '\\%a%who%'}\ncondition: sel");
  const events = ["x %abob", "x %aann", "x %awho", "x abob"].map((command) => exec(command));
  assertEquals(matchesOf(text, events, { who: ["bob", "a?n"] }), [["rule"], ["rule"], [], []]);
});

Deno.test("a program's parent is the latest program with the parent's pid, in the same session", () => {
  const text = rule("sel: {ParentImage|endswith: /nginx, ParentCommandLine|contains: -g}\ncondition: sel");
  const events = [
    exec("/usr/sbin/nginx -g daemon", { pid: 10 }),
    exec("sh -c id", { pid: 11, ppid: 10 }),
    exec("id", { pid: 12, ppid: 11 }),
    exec("sh -c id", { pid: 13, ppid: 10, session: "other" }),
  ];
  assertEquals(matchesOf(text, events), [[], ["rule"], [], []]);
});

Deno.test("an exec event with missing or odd parts is never a parent, and stops no later match", () => {
  const text = rule("sel: {ParentImage|endswith: /nginx}\ncondition: sel");
  const good = exec("/usr/sbin/nginx -g", { pid: 10 });
  const families = [
    1,
    {},
    ...[null, {}, { executable: "/nginx" }, { executable: null, command: [] }].map(
      (activity) => ({ activity }),
    ),
  ];
  const odd = families.map((process) => ({ ...good, process }) as unknown as Matchable);
  const child = exec("id", { pid: 12, ppid: 10 });
  assertEquals(matchesOf(text, [...odd, child, good, child]).flat(), ["rule"]);
});

Deno.test("dates are compared by their parts", () => {
  const text = rule("sel: {UtcTime|hour|gte: 22}\nday: {UtcTime|month: 2}\ncondition: 1 of them");
  const at = (date: string) => exec("id", { at: Date.parse(date) - 1_000_000 });
  const dates = ["2026-01-02T22:30:00Z", "2026-01-02T21:59:59Z", "2026-02-02T01:00:00Z"];
  assertEquals(matchesOf(text, dates.map(at)), [["rule"], [], ["rule"]]);
});

Deno.test("rules with product sbx name fields of events, in maps and lists too", () => {
  const text = `title: Own
logsource: {product: sbx, category: http}
detection:
  sel:
    http.request.headers.x-agent|startswith: evil
    http.request.port: 8443
  condition: sel
`;
  const event = (agent: string) => ({
    common: eventCommon("http.request"),
    http: { request: httpRequest({ port: 8443, headers: { "x-agent": ["nice", agent] } }) },
  });
  assertEquals(matchesOf(text, [event("Evil/1"), event("good")]), [["own"], []]);
  const whole = text.replace("headers.x-agent|startswith: evil", "headers|re: '^x-agent: Evil'");
  assertEquals(matchesOf(whole, [event("Evil/1"), event("good")]), [["own"], []]);
  const argv = `title: Argv
logsource: {product: sbx, category: process}
detection: {sel: {process.activity.argv: --force}, condition: sel}
`;
  const run = (...argv: string[]) => ({
    common: eventCommon("process.exec"),
    process: { activity: processExec({ argv }) },
  });
  assertEquals(matchesOf(argv, [run("git", "push", "--force"), run("git", "--forced")]), [["argv"], []]);
  const { outcomes: [{ status, warnings }] } = compile(text.replace("request.port", "request.prot"));
  assertEquals([status, warnings[0].message], ["never_matches", 'field "http.request.prot" is never there']);
});

Deno.test("a filter adds its condition to the rules that it names", () => {
  const filter = `---
title: Not the backup
logsource: {category: process_creation, product: linux}
filter:
  rules: [some_rule]
  selection: {User: backup}
  condition: not selection
`;
  const text = rule("sel: {Image: tar}\ncondition: sel", "name: some_rule\n") + filter;
  assertEquals(matchesOf(text, [exec("tar"), exec("tar", { uid: "backup" })]), [["some-rule"], []]);
  const lost = compile(filter.replace("some_rule", "other"));
  assertEquals(reasonsOf(lost.outcomes[0]), ["filter:5"]);
});

const BASE = `title: Base
name: base
logsource: {category: process_creation, product: linux}
detection: {sel: {Image: curl}, condition: sel}
---
title: Other
name: other
logsource: {category: process_creation, product: linux}
detection: {sel: {Image: tar}, condition: sel}
`;
const correlation = (text: string) => `${BASE}---\ntitle: Many\ncorrelation: {${text}}\n`;

Deno.test("event_count fires once in its timespan for each group and session", () => {
  const text = correlation(
    "type: event_count, rules: [base], group-by: [User], timespan: 10s, condition: {gte: 3}",
  );
  const runs: [at: number, uid?: string, session?: string][] = [
    [0],
    [1000],
    [1500, "1"],
    [2000],
    [3000],
    [4000, "0", "other"],
    [20_000],
    [20_100],
    [20_200],
  ];
  const events = runs.map(([at, uid, session]) => exec("curl", { at, uid, session }));
  assertEquals(matchesOf(text, events).map(({ length }) => length), [0, 0, 0, 1, 0, 0, 0, 0, 1]);
});

Deno.test("value_count counts distinct values; gt and lte make a range", () => {
  const text = correlation(
    "type: value_count, rules: [base], group-by: [User], timespan: 1m, condition: {field: CommandLine, gt: 1, lte: 2}",
  );
  const events = ["curl a", "curl a", "curl b"].map((command, at) => exec(command, { at }));
  assertEquals(matchesOf(text, events).map(({ length }) => length), [0, 0, 1]);
});

Deno.test("temporal needs all rules within the timespan, temporal_ordered in their order too", () => {
  const events = (...runs: [string, number][]) => runs.map(([command, at]) => exec(command, { at }));
  const fires = (type: string, list: Matchable[]) =>
    matchesOf(correlation(`type: ${type}, rules: [base, other], group-by: [User], timespan: 5s`), list)
      .map(({ length }) => length);
  const wrong = events(["tar", 0], ["curl", 1000], ["tar", 20_000]);
  assertEquals(fires("temporal", wrong), [0, 1, 0]);
  assertEquals(fires("temporal_ordered", wrong), [0, 0, 0]);
  assertEquals(fires("temporal_ordered", events(["curl", 0], ["tar", 4999])), [0, 1]);
});

Deno.test("aliases name different fields of two rules; rules of a correlation are silent unless it generates them", () => {
  const text = BASE.replace(
    "name: other\nlogsource: {category: process_creation, product: linux}",
    `name: other
logsource: {category: proxy}`,
  ).replace("Image: tar", "cs-method: POST") + `---
title: Chain
correlation:
  type: temporal
  rules: [base, other]
  group-by: [who]
  timespan: 1m
  generate: true
  aliases:
    who: {base: ProcessId, other: ProcessId}
`;
  const post = (pid: number) => ({
    common: eventCommon("http.request", {
      session_id: "s",
      timestamp_unix_ms: 1_000_001,
      process: { pid, ppid: 1, executable: "x", command: "x", cwd: "/" },
    }),
    http: { request: httpRequest({ method: "POST" }) },
  });
  assertEquals(matchesOf(text, [exec("curl", { pid: 7 }), post(8), post(7)]), [["base"], ["other"], [
    "other",
    "chain",
  ]]);
});

Deno.test("an invalid correlation is refused with a reason for each fault", () => {
  const cases: [string, string[]][] = [
    ["type: sum, rules: [base]", ["correlation"]],
    ["type: event_count, rules: [base], timespan: 5x, condition: {gte: 1}", ["correlation"]],
    ["type: event_count, rules: [nowhere], timespan: 5m, condition: {gte: 1}", ["correlation"]],
    ["type: event_count, rules: [many], timespan: 5m, condition: {gte: 1}", ["correlation"]],
    ["type: value_count, rules: [base], timespan: 5m, condition: {gte: 1}", ["correlation"]],
    ["type: event_count, rules: [base], timespan: 5m, condition: {gte: 99999}", [
      "correlation",
      "correlation",
    ]],
  ];
  for (const [text, codes] of cases) {
    const outcome = compile(correlation(text)).outcomes[2];
    assertEquals([outcome.status, outcome.reasons.map(({ code }) => code)], ["refused", codes], text);
  }
});

Deno.test("of two rules with one id the second is refused", () => {
  const { plan, outcomes } = compile(BASE + "---\n" + BASE);
  assertEquals(outcomes.map(({ status }) => status), ["compiled", "compiled", "refused", "refused"]);
  assertMatch(outcomes[2].reasons[0].message, /r\.yml:1 has the id "base" too/);
  assertEquals(plan.rules.length, 2);
});
