/** Sigma rules that are bombs, and guests that write texts for the rules in force. */
import { assert, assertEquals } from "@std/assert";
import type { Matchable } from "../../../lib/detection/mod.ts";
import { compileRules } from "../../../lib/detection/rule/compile.ts";
import type { Placeholders } from "../../../lib/detection/rule/modifier.ts";
import { PlanSchema } from "../../../lib/detection/rule/plan_schema.ts";
import { RuleEngine } from "../../../lib/detection/rule/run/engine.ts";
import { eventCommon, processExec } from "../../helper/event.ts";

function compile(text: string, placeholders: Placeholders = {}) {
  return compileRules([{ path: "r.yml", text }], { pack_id: "test", placeholders });
}

/** Rule over started programs. */
function rule(detection: string): string {
  return `title: Rule\nlogsource: {category: process_creation}\ndetection:\n${
    detection.split("\n").map((line) => `  ${line}`).join("\n")
  }\n`;
}

function exec(command: string, uid = "0", at = 0) {
  const process = { pid: 7 + at, ppid: 1, executable: "x", command, cwd: "/" };
  return {
    common: eventCommon("process.exec", { process, labels: { uid }, timestamp_unix_ms: 1_000_000 + at }),
    process: { activity: processExec({ executable: "x", command, argv: [], cwd: "/" }) },
  } as unknown as Matchable;
}

Deno.test("a rule is a limited amount of work, whatever it says", () => {
  const many = (text: string, count: number) => Array.from({ length: count }, () => text);
  const bombs: [string, string][] = [
    ["limit", rule(`sel: {CommandLine|windash: '${"-a ".repeat(12)}'}\ncondition: sel`)],
    ["limit", rule(`sel: {CommandLine|windash|contains: [${many("'-a -b -c -d -e'", 20)}]}\ncondition: sel`)],
    ["limit", rule(`sel: {CommandLine|base64offset: [${many("abc", 4000)}]}\ncondition: sel`)],
    ["limit", rule(`sel: {Image: a}\ncondition: ${"(".repeat(100)}sel${")".repeat(100)}`)],
    ["limit", rule(`sel: {Image: a}\ncondition: ${many("sel", 3000).join(" or ")}`)],
    ["regex", rule(`sel: {Image|re: '((a{100}){100}){100}'}\ncondition: sel`)],
    ["regex", rule(`sel: {Image|re: '${"a".repeat(5000)}'}\ncondition: sel`)],
    ["nesting", `${"a: {".repeat(100)}${"}".repeat(100)}`],
    ["alias", "title: &a [*a, *a]\n"],
    [
      "limit",
      rule(
        `${Array.from({ length: 501 }, (_, at) => `s${at}: {Image: a}`).join("\n")}\ncondition: 1 of them`,
      ),
    ],
    ["limit", rule(`sel: {CommandLine|expand: '${"%p%".repeat(20)}'}\ncondition: sel`)],
  ];
  for (const [code, text] of bombs) {
    const { outcomes: [{ reasons }] } = compile(text, { p: ["a", "b", "c"] });
    assertEquals(reasons[0]?.code, code, text.slice(0, 200));
  }
  // References of a condition are no copies.
  const of = rule(
    `${Array.from({ length: 100 }, (_, at) => `s${at}: {Image: a${at}}`).join("\n")}\ncondition: ${
      many("1 of s*", 40).join(" and ")
    }`,
  );
  assert(JSON.stringify(compile(of).plan).length < 100_000);
});

Deno.test("rules that compile are a plan that VMs take, however many filters and fields they have", () => {
  const rules = (count: number) =>
    Array.from(
      { length: count },
      (_, at) =>
        `title: Rule ${at}\nname: r${at}\nlogsource: {category: proxy}\ndetection: {s: {cs-host: a}, condition: s}\n`,
    );
  const filter = (at: number, selections = 1) =>
    `title: Filter ${at}\nlogsource: {category: proxy}\nfilter:\n  rules: any\n${
      Array.from({ length: selections }, (_, place) => `  s${place}: {cs-method: GET}\n`).join("")
    }  condition: not 1 of s*\n`;
  const filters = (count: number, selections?: number) =>
    Array.from({ length: count }, (_, at) => filter(at, selections));
  const group = Array.from({ length: 65 }, () => "cs-host").join(", ");
  const cases: [string[], number][] = [
    [[...rules(1), ...filters(200)], 0],
    [[...rules(201), ...filters(100)], 1],
    [[...rules(1), ...filters(21, 490)], 1],
    [[
      ...rules(1),
      `title: C\ncorrelation: {type: event_count, rules: [r0], group-by: [${group}], timespan: 1m, condition: {gte: 1}}\n`,
    ], 1],
    [[
      `title: Own\nlogsource: {product: sbx, category: http}\ndetection: {s: {http.request.headers.${
        "k".repeat(600)
      }: a}, o: {http.request.port: 1}, condition: s or o}\n`,
    ], 0],
  ];
  for (const [documents, refused] of cases) {
    const { plan, outcomes } = compile(documents.join("---\n"));
    assertEquals(outcomes.filter(({ status }) => status !== "compiled").length, refused);
    assertEquals(PlanSchema.safeParse(JSON.parse(JSON.stringify(plan))).error, undefined);
  }
});

Deno.test("a guest's text for a rule takes time by its length only", () => {
  const long = "a".repeat(60_000);
  const rules = [
    ["'(a+)+$'", "|re"],
    ["'(a|a)*b$'", "|re"],
    ["'*a?a?a?a?b*a*a*a*a*b'", ""],
    [`'*${"a*".repeat(200)}b'`, ""],
    [`'${"?".repeat(200)}*${"?a".repeat(100)}b'`, ""],
  ];
  for (const [value, modifier] of rules) {
    const { plan, outcomes } = compile(rule(`sel: {CommandLine${modifier}: ${value}}\ncondition: sel`));
    assertEquals(outcomes[0].reasons, []);
    assertEquals(new RuleEngine([plan]).match(exec(`${long}!`)), [], value);
  }
});

Deno.test("a guest that invents groups and processes fills no memory, and hides no other group of now", () => {
  const text =
    rule("sel: {CommandLine|startswith: curl}\nold: {ParentImage: y}\ncondition: sel or old").replace(
      "title: Rule\n",
      "title: Rule\nname: base\n",
    ) + `---
title: Many
correlation: {type: event_count, rules: [base], group-by: [User], timespan: 1d, condition: {gte: 3}}
`;
  const { plan } = compile(text);
  const engine = new RuleEngine([plan]);
  for (let at = 0; at < 30_000; at++) assertEquals(engine.match(exec("curl a", `user${at}`, at)), []);
  const last = ["victim", "victim", "victim"].map((uid, at) =>
    engine.match(exec("curl b", uid, 40_000 + at))
  );
  assertEquals(last.map((hits) => hits.map(({ id }) => id)), [[], [], ["many"]]);
});

Deno.test("many correlations share their memory; a flood of groups pushes out groups of its own only", () => {
  const text = (at: number) =>
    `title: Many ${at}
correlation: {type: event_count, rules: [base], group-by: [User], timespan: 1d, condition: {gte: 2}}
`;
  const base = rule("sel: {CommandLine|startswith: curl}\ncondition: sel").replace(
    "title: Rule\n",
    "title: Rule\nname: base\n",
  );
  const { plan } = compile([base, ...Array.from({ length: 3000 }, (_, at) => text(at))].join("---\n"));
  assertEquals(plan.correlations.length, 3000);
  const engine = new RuleEngine([plan]);
  engine.match(exec("curl a", "first"));
  engine.match(exec("curl a", "second"));
  // Of 200,000 groups, each has a share of 100.
  for (let at = 0; at < 99; at++) engine.match(exec("curl a", `user${at}`, at));
  assertEquals(engine.match(exec("curl a", "second", 200)).length, 3000);
  assertEquals(engine.match(exec("curl a", "first", 300)).length, 0);
});

Deno.test("programs that are remembered as parents have a limited number of characters", () => {
  const { plan } = compile(
    rule("sel: {ParentCommandLine|contains: needle}\ncondition: sel").replace("Rule", "Child"),
  );
  const engine = new RuleEngine([plan]);
  const child = (pid: number) => {
    const event = exec("child", "0", 1) as unknown as { common: { process: { ppid: number } } };
    event.common.process.ppid = pid;
    return engine.match(event as unknown as Matchable).length;
  };
  engine.match(exec("needle", "0", 10));
  assertEquals(child(17), 1);
  const long = "x".repeat(5000);
  for (let at = 0; at < 5000; at++) engine.match(exec(long, "0", 100 + at));
  assertEquals(child(17), 0);
});
