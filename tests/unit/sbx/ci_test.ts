/** Files and annotations of a run for a build server (docs/guides/ci.md). */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { load } from "js-yaml";
import {
  ciAnnotations,
  ciCodeQuality,
  ciExitCode,
  type CiFinding,
  ciJunit,
  type CiRun,
  ciSummary,
} from "../../../cmd/sbx/start/ci_files.ts";
import { fromRoot } from "../../helper/repo.ts";

const NO_COST = {
  calls: 0,
  input_tokens: 0,
  cached_input_tokens: 0,
  output_tokens: 0,
  usd: 0,
  unpriced_calls: 0,
  estimated_calls: 0,
};

function finding(severity: CiFinding["severity"], subject = "curl evil.example"): CiFinding {
  return { finding_id: `f-${severity}`, rule_id: "exfil", title: "Data leaves", severity, subject };
}

function runOf(findings: CiFinding[], more: Partial<CiRun> = {}): CiRun {
  return { program: "make test", exit_code: 0, session: "s", findings, refused: [], cost: NO_COST, ...more };
}

Deno.test("the exit code is the program's, and 4 after a success with findings that are severe enough", () => {
  const run = runOf([finding("medium")]);
  assertEquals(ciExitCode(run, "high"), 0);
  assertEquals(ciExitCode(run, "medium"), 4);
  assertEquals(ciExitCode(run, "never"), 0);
  assertEquals(ciExitCode(runOf([finding("critical")]), "never"), 0);
  assertEquals(ciExitCode({ ...run, exit_code: 7 }, "info"), 7);
  assertEquals(ciExitCode(runOf([]), "info"), 0);
});

Deno.test("annotations: findings that fail the run are errors, and no word of the guest begins a command", () => {
  const hostile = "a\n::set-env name=X::y\r%0A";
  const run = runOf([finding("high", hostile), finding("low")], {
    refused: [{ subject: "dns x,y", times: 3 }],
  });
  const lines = ciAnnotations(run, "high");
  assertEquals(lines.map((line) => line.split("\n").length), [1, 1, 1]);
  assertEquals(lines[0].slice(0, 46), "::error title=sbx high exfil::Data leaves: a%0");
  assertStringIncludes(lines[0], "%250A");
  assertEquals(lines[1], "::warning title=sbx low exfil::Data leaves: curl evil.example");
  assertEquals(lines[2], "::notice title=sbx refused::dns x,y, 3 times");
});

Deno.test("the summary has the words of the guest as code, also with ticks and bars in them", () => {
  const text = ciSummary(runOf([finding("high", "`` | <b>x</b>\n# y")], { program: "a|b" }));
  assertStringIncludes(text, "## sbx: `a\\|b`\n");
  assertStringIncludes(text, "| 0 | 1 | 0 | none | `s` |");
  const row = text.split("\n").find((line) => line.startsWith("| high"))!;
  assertStringIncludes(row, "``` `` \\| <b>x</b>");
  assertEquals(ciSummary(runOf([])).includes("### Findings"), false);
});

Deno.test("a guest's long words crowd nothing out: GitHub takes a summary of 1 MiB at most", () => {
  const long = Array.from({ length: 60 }, () => finding("high", "😀".repeat(100_000)));
  const refused = long.map(({ subject }) => ({ subject: subject!, times: 1 }));
  const run = runOf(long, { refused });
  const [summary, annotations] = [ciSummary(run), ciAnnotations(run, "high").join("\n")];
  for (const text of [summary, annotations, ciJunit(run, "high"), ciCodeQuality(long)]) {
    assertEquals(new TextEncoder().encode(text).length < 256 * 1024, true);
    assertEquals([text.isWellFormed(), text.includes("😀…")], [true, true]);
  }
});

Deno.test("JUnit: a finding is a failed case where it fails the run; a run without any is one passed case", () => {
  const text = ciJunit(runOf([finding("high"), finding("low")]), "high");
  assertStringIncludes(text, `tests="2" failures="1"`);
  assertStringIncludes(ciJunit(runOf([]), "high"), `tests="1" failures="0"`);
});

Deno.test("GitLab's Code Quality report has its own words for severities", () => {
  const report = JSON.parse(ciCodeQuality([finding("critical"), finding("info")]));
  assertEquals(report.map(({ severity, fingerprint }: Record<string, string>) => [severity, fingerprint]), [
    ["blocker", "f-critical"],
    ["info", "f-info"],
  ]);
  assertEquals(ciCodeQuality([]), "[]\n");
});

Deno.test("action.yml passes each input to the script as a variable, and none into a line for the shell", async () => {
  // deno-lint-ignore no-explicit-any
  const action = load(await Deno.readTextFile(fromRoot("action.yml"))) as any;
  const [cache, run] = action.runs.steps;
  const used = [
    ...JSON.stringify([cache.with, run.env, action.runs.steps[2].with]).matchAll(/inputs\.([a-z-]+)/g),
  ];
  assertEquals(new Set(used.map(([, name]) => name)), new Set(Object.keys(action.inputs)));
  assertEquals(run.run, '"$GITHUB_ACTION_PATH/scripts/ci.sh"');
  const script = await Deno.readTextFile(fromRoot("scripts/ci.sh"));
  for (const name of Object.keys(run.env)) assertStringIncludes(script, name);
});
