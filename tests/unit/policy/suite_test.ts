/** Rule files with their tests, and the lines that `sbx policy` prints (docs/guides/policy.md). */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  completeEvent,
  formatFailures,
  formatLint,
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
  const tests = parseTests(cases.map(([then]) => test("allow", { name: "n", then })).join("\n"), "t");
  const report = await runTests(tests, "t", () => policy);
  assertEquals(report.results.map(({ message }) => message), cases.map(([, message]) => message));
  assertEquals(formatFailures(report), [
    "t:3: n: decision: expected block, got allow; rule: expected x, got a",
    "t:4: n: layer: expected corp, got profile",
    "t:5: n: findings: expected , got a, f",
  ]);
  const [unnamed] = (await runTests(parseTests(`\n${test("allow")}`, "t"), "t", () => policy)).results;
  assertEquals([unnamed.name, unnamed.ok, "message" in unnamed], ["line 2", true, false]);
});

Deno.test("a test that cannot be read is named with its line and its problem", () => {
  const cases: [line: string, message: string][] = [
    ["{", "t:1: not valid JSON"],
    [`${'{"a":'.repeat(2000)}1${"}".repeat(2000)}`, "nest"],
    ['{"__proto__":1}', "__proto__"],
    [test("allow", { than: 1 }), 't:1: unknown key "than"; did you mean "then"?'],
    [test("allow", { zzzzzzzz: 1 }), 't:1: unknown key "zzzzzzzz"'],
    [
      test("allow", { then: { decision: "allow", role: "x" } }),
      't:1: then: unknown key "role"; did you mean',
    ],
    [test("no"), "t:1: then.decision: "],
    ["1", "t:1: "],
  ];
  for (const [line, message] of cases) {
    const error = assertThrows(() => parseTests(line, "t"), SbxError);
    assertEquals([error.code, error.message.includes(message)], ["policy.invalid", true], error.message);
  }
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
