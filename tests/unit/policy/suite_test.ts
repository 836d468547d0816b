/** Rule files with their tests, and the lines that `sbx policy` prints (docs/guides/policy.md). */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  checkRuleText,
  completeEvent,
  formatFailures,
  formatLint,
  formatProblem,
  lintPolicy,
  parseTests,
  policyOfFiles,
  readRules,
  runTestFile,
  runTests,
} from "../../../lib/policy/author/mod.ts";
import { RULE_FILE_MAX } from "../../../lib/policy/author/read.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { HOST, rule } from "../../helper/policy.ts";

const table = (layer: string, action: string) => `[${layer}.r]\naction = "${action}"\nmatch = '${HOST}'\n`;
const test = (decision: string, more: object = {}) =>
  JSON.stringify({
    when: { common: { event_type: "http.request" }, http: { request: { host: "example.com" } } },
    then: { decision },
    ...more,
  });

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/block.toml`, table("profiles.rules", "block"));
    await Deno.writeTextFile(`${folder}/ask.toml`, table("profiles.rules", "ask"));
    await Deno.writeTextFile(`${folder}/corp.toml`, table("corp.rules", "allow"));
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("tests run under the rules of the caller, or under those that they name", () =>
  inFolder(async (folder) => {
    const path = `${folder}/t.jsonl`;
    const given = { given: { rules: "ask.toml" } };
    await Deno.writeTextFile(path, [test("block"), "", "# ask", test("ask", given)].join("\n"));
    const run = async (files: Parameters<typeof runTestFile>[1]) => {
      const { ok, passed, failed, results } = await runTestFile(path, files);
      return [ok, passed, failed, results.map(({ decision }) => decision!.decision)];
    };
    assertEquals(await run({ rules: `${folder}/block.toml` }), [true, 2, 0, ["block", "ask"]]);
    assertEquals(await run({}), [false, 1, 1, ["allow", "ask"]]);
    assertEquals(await run({ corp: `${folder}/corp.toml` }), [false, 0, 2, ["allow", "allow"]]);
    const none = await assertRejects(() => runTestFile(`${folder}/none`, {}), SbxError);
    assertEquals([none.code, none.message], [
      "policy.not_found",
      `cannot read the test file ${folder}/none`,
    ]);
  }));

Deno.test("files of corp may hold rules of corp only", () =>
  inFolder(async (folder) => {
    const ids = async (files: Parameters<typeof policyOfFiles>[0]) =>
      (await policyOfFiles(files)).rules.map(({ rule }) => rule.layer).filter((layer) => layer !== "default");
    assertEquals(await ids({}), []);
    assertEquals(await ids({ rules: `${folder}/block.toml`, corp: `${folder}/corp.toml` }), [
      "corp",
      "profile",
    ]);
    const error = await assertRejects(() => ids({ corp: `${folder}/block.toml` }), SbxError);
    assertEquals(error.code, "policy.invalid");
  }));

Deno.test("a rule file over its limit is not read", () =>
  inFolder(async (folder) => {
    const path = `${folder}/large.toml`;
    await Deno.writeTextFile(path, table("profiles.rules", "block"));
    await Deno.truncate(path, RULE_FILE_MAX + 1);
    const error = await assertRejects(() => readRules(path), SbxError);
    assertEquals([error.code, error.message], [
      "policy.invalid",
      `${path} is larger than ${32 * 1024 * 1024} bytes`,
    ]);
  }));

Deno.test("a test compares decision, rule, layer and findings", async () => {
  const found = rule("profile", "f", "allow", HOST, { detection_level: "low" });
  const policy = compilePolicy([found, rule("profile", "a", "allow", HOST, { detection_level: "high" })]);
  const cases: [then: object, message: string | undefined][] = [
    [{ decision: "allow" }, undefined],
    [{ decision: "allow", rule: "a", layer: "profile", findings: ["f", "a"] }, undefined],
    [{ decision: "block", rule: "x" }, "decision: expected block, got allow; rule: expected x, got a"],
    [{ decision: "allow", layer: "corp" }, "layer: expected corp, got profile"],
    [{ decision: "allow", findings: [] }, "findings: expected , got a, f"],
  ];
  const tests = parseTests(cases.map(([then]) => test("allow", { name: "n", then })).join("\n"));
  const report = await runTests(tests, "t", () => policy);
  assertEquals(report.results.map(({ message }) => message), cases.map(([, message]) => message));
  assertEquals(formatFailures(report), [
    "t:3: n: decision: expected block, got allow; rule: expected x, got a",
    "t:4: n: layer: expected corp, got profile",
    "t:5: n: findings: expected , got a, f",
  ]);
  const [unnamed] = (await runTests(parseTests(`\n${test("allow")}`), "t", () => policy)).results;
  assertEquals([unnamed.name, unnamed.ok, "message" in unnamed], ["line 2", true, false]);
});

Deno.test("a test that cannot be read is named with its line and its problem", () => {
  const cases: [line: string, message: string][] = [
    ["{", "not valid JSON"],
    [`${'{"a":'.repeat(2000)}1${"}".repeat(2000)}`, "nest"],
    ['{"__proto__":1}', "__proto__"],
    [test("allow", { than: 1 }), 'unknown key "than"; did you mean "then"?'],
    [test("allow", { zzzzzzzz: 1 }), 'unknown key "zzzzzzzz"'],
    [
      test("allow", { then: { decision: "allow", role: "x" } }),
      'then: unknown key "role"; did you mean',
    ],
    [test("no"), "then.decision: "],
    ["1", "expected object"],
  ];
  for (const [line, message] of cases) {
    const [found] = parseTests(`\n${line}`);
    assert(found.problem !== undefined && found.line === 2, line);
    assertStringIncludes(found.problem, message);
  }
});

Deno.test("a bad line, and rules that cannot be read, fail by themselves and hide no other test", () =>
  inFolder(async (folder) => {
    const path = `${folder}/t.jsonl`;
    const lines = [
      "{",
      test("block"),
      test("block", { given: { rules: "none.toml" } }),
      test("allow", { than: 1 }),
    ];
    await Deno.writeTextFile(path, lines.join("\n"));
    const report = await runTestFile(path, { rules: `${folder}/block.toml` });
    assertEquals([report.passed, report.failed], [1, 3]);
    const [json, rules, key] = formatFailures(report);
    assertEquals(json, `${path}:1: line 1: not valid JSON`);
    assertStringIncludes(rules, `${path}:3: line 3: cannot read the rule file ${folder}/none.toml`);
    assertStringIncludes(key, 'unknown key "than"; did you mean "then"?');
    assertEquals((await runTestFile(path, await policyOfFiles({ rules: `${folder}/block.toml` }))).passed, 1);
    await assertRejects(() => runTestFile(path, { rules: `${folder}/none.toml` }), SbxError);
  }));

Deno.test("a check names every problem of a file, with its line and column", () => {
  const text = `[profiles.rules.syntax]
action = block
match = 'true'

[profiles.rules.typo]
acton = "block"
match = 'http.request.host == "a"'

[profiles.rules.field]
action = "block"
match = 'http.request.hots == "a"'

[profiles.rules.lines]
action = "block"
match = '''
has(http.request) &&
  http.request.por == 1'''

[profiles.rules.escaped]
action = "block"
match = "\\"a\\" == 'a' && http.request.hots == 'a'"

[profiles.rules.late]
action = "block"
priority = 1
match = 'true'

[profiles.rules.good]
action = "block"
match = 'http.request.host == "a"'
`;
  const { problems, rules } = checkRuleText(text, "r.toml");
  assertEquals(rules.map(({ id }) => id), ["good"]);
  assertEquals(problems.map(({ line, column }) => `${line}:${column}`), [
    "2:10",
    "5:1",
    "6:1",
    "11:10",
    "17:3",
    "21:26",
    "25:1",
  ]);
  assertStringIncludes(
    formatProblem(problems[3]),
    'r.toml:11:10: profile rule "field": unknown field http.request.hots',
  );
});

Deno.test("an event of a test gets the common fields that it leaves out, and keeps its own", () => {
  const common = { event_type: "process.exec" as const };
  const expected = {
    event_id: "000000000000",
    session_id: "test",
    timestamp_unix_ms: 0,
    sequence: 0,
    labels: {},
  };
  assertEquals(completeEvent({ schema_version: 1, common }) as unknown, {
    schema_version: 1,
    common: { ...expected, ...common },
  });
  const own = { ...common, event_id: "1", sequence: 7, labels: { a: "b" } };
  assertEquals(completeEvent({ schema_version: 1, common: own }).common as unknown, { ...expected, ...own });
});

Deno.test("a lint finding is printed with its place, its code and an example", () => {
  const [lint] = lintPolicy(compilePolicy([rule("profile", "a", "allow", "true", { priority: 20 })]));
  const line = 'warning: profile rule "a": its condition is always true: it decides every event ' +
    "not decided by an earlier rule [always-true]";
  assertEquals(formatLint({ ...lint, witness: undefined }), line);
  assertEquals(formatLint({ ...lint, file: "f", line: 3, witness: undefined }), `f:3: ${line}`);
  assertEquals(formatLint(lint), `${line}\n    for example ${JSON.stringify(lint.witness)}`);
});
