/** Rule files and rule tests. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { junitOf, parseRules, parseTests, readRules, runTests } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";

const fixture = (name: string) => new URL(`../../../fixtures/rules/${name}`, import.meta.url).pathname;

Deno.test("rules are read with their lines and the priorities of their layer", () => {
  const rules = parseRules(
    `# a comment

[corp.rules.a]
match = 'true'
action = "block"

[profiles.rules]
b = { action = "allow", match = 'false', enabled = false }

[default.c]
action = "ask"
match = """
true
&& false"""
`,
    "f.toml",
  );
  assertEquals(
    rules.map((
      { id, layer, name, priority, enabled, file, line, match_line },
    ) => [id, layer, name, priority, enabled, file, line, match_line]),
    [
      ["a", "corp", "a", -10, true, "f.toml", 3, 4],
      ["b", "profile", "b", 10, false, "f.toml", 8, 8],
      ["c", "default", "c", 0, true, "f.toml", 10, 13],
    ],
  );
});

const INVALID_RULES: [string, string][] = [
  [
    `[profiles.rules.a]\naction = "allow"\nmach = "true"`,
    `f.toml:3: profiles.rules.a.mach: unknown key; did you mean "match"?`,
  ],
  [`[profiles.rules.a]\naction = "alow"\nmatch = "true"`, "f.toml:2: profiles.rules.a.action"],
  [
    `[profiles.rules.a]\naction = "allow"\nmatch = "true"\npriority = 9`,
    "f.toml:4: profiles.rules.a.priority: the priority of a profile rule must be 10 or higher",
  ],
  [
    `[corp.rules.a]\naction = "allow"\nmatch = "true"\npriority = -9`,
    "f.toml:4: corp.rules.a.priority: the priority of a corp rule must be -10 or lower",
  ],
  [`[corp.rules.a]\naction = "allow"\nmatch = "true"\npriority = -1001`, "f.toml:4: corp.rules.a.priority"],
  [
    `[profiles.rules.a]\naction = "allow"\nmatch = "true"\npriority = 1001`,
    "f.toml:4: profiles.rules.a.priority",
  ],
  [`[corp.rule.a]\naction = "allow"`, "f.toml:1: corp.rule: unknown key"],
  [
    `[profiles.rules."a b"]\naction = "allow"\nmatch = "true"`,
    `f.toml:1: profiles.rules."a b": rule ids may contain letters, digits, _ . and -, and do not begin with guard-`,
  ],
  [`[profiles.rules.a\n`, "f.toml:1:"],
];
for (const [text, message] of INVALID_RULES) {
  Deno.test(`rules rejected: ${message}`, () => {
    const error = assertThrows(() => parseRules(text, "f.toml"), SbxError);
    assert(error.message.startsWith(message) || error.message.includes(`\n${message}`), error.message);
  });
}

Deno.test("a profile's rule file must not contain corp rules", () => {
  const text = `[corp.rules.a]\naction = "allow"\nmatch = "true"`;
  const error = assertThrows(() => parseRules(text, "f.toml", ["profile", "default"]), SbxError);
  assertEquals(error.message, "f.toml:1: this file must not contain [corp.rules.*] rules");
});

Deno.test("an error in an expression is reported with its own line in the file", () => {
  const rules = parseRules(
    `[profiles.rules.a]\naction = "allow"\nmatch = '''\ntrue &&\nhttp.request.hots == "x"'''\n`,
    "f.toml",
  );
  const error = assertThrows(() => compilePolicy(rules), SbxError);
  assertEquals(
    error.message,
    `f.toml:5: profile rule "a": unknown field http.request.hots; did you mean "http.request.host"?`,
  );
});

Deno.test("missing files, folders and invalid UTF-8 are rejected", async () => {
  const folder = await Deno.makeTempDir();
  const code = async (path: string) => (await assertRejects(() => readRules(path), SbxError)).code;
  assertEquals(await code(`${folder}/none.toml`), "policy.not_found");
  assertEquals(await code(folder), "policy.not_found");
  await Deno.writeFile(`${folder}/bytes.toml`, new Uint8Array([0x61, 0xff, 0xfe]));
  assertEquals(await code(`${folder}/bytes.toml`), "policy.invalid");
  await Deno.remove(folder, { recursive: true });
});

Deno.test("the sample rules pass their tests", async () => {
  const policy = compilePolicy([
    ...await readRules(fixture("enforcement.toml")),
    ...await readRules(fixture("corp.toml")),
  ]);
  const path = fixture("enforcement.tests.jsonl");
  const report = await runTests(parseTests(await Deno.readTextFile(path)), path, () => policy);
  assertEquals(report.results.filter(({ ok }) => !ok).map(({ name, message }) => [name, message]), []);
  assertEquals([report.ok, report.passed], [true, 10]);
});

Deno.test("a failed test reports expected and actual values, also as JUnit", async () => {
  const line =
    `{"name":"<x> & \\"y\\"","when":{"common":{"event_type":"process.exec"}},"then":{"decision":"block","rule":"a"}}`;
  const { ok, failed, results, ...report } = await runTests(
    parseTests(`\n${line}\n`),
    "t.jsonl",
    () => compilePolicy([]),
  );
  assertEquals([ok, failed, results[0].line], [false, 1, 2]);
  assertEquals(
    results[0].message,
    "decision: expected block, got allow; rule: expected a, got allow-process",
  );
  const text = junitOf({ ok, failed, results: [{ ...results[0], duration_ms: 1.5 }], ...report });
  assertEquals(
    text,
    `<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="t.jsonl" tests="1" failures="1">
  <testcase classname="t.jsonl" name="&#60;x&#62; &#38; &#34;y&#34;" time="0.0015">
    <failure message="decision: expected block, got allow; rule: expected a, got allow-process"/>
  </testcase>
</testsuite>
`,
  );
});
