import { brief, formatJson, note, print } from "../../lib/base/print/mod.ts";
import { type Command, type CommandGroup, JSON_OPTION, type Option } from "../../lib/base/args/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import {
  formatFailures,
  formatLint,
  junitOf,
  lintPolicy,
  policyOfFiles,
  readRules,
  runTestFile,
} from "../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../lib/policy/mod.ts";

const CORP_OPTION: Option = { name: "corp", value: "FILE", about: "rules of corp" };

/** `sbx-admin policy check`: exits with 1 when the file has an invalid rule. */
const policyCheck: Command = {
  name: "policy check",
  usage: "RULES_FILE [--json]",
  summary: "read and compile a rule file; names every invalid rule with its line",
  notes: ["The exit code is 1 if a rule is invalid."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin policy check rules.toml"],
  async run(args) {
    const [path] = args.words;
    const report = await check(path);
    if (args.has("json")) await print(formatJson(report));
    else if (report.ok) {
      await print(`${path} is valid: ${count(report.rule_count, "rule")}`);
    } else note(brief(report.problems.join("\n")));
    return report.ok ? 0 : 1;
  },
};

/** `sbx-admin policy lint`: exits with 1 when a remark is an error, not for warnings. */
const policyLint: Command = {
  name: "policy lint",
  usage: "RULES_FILE [--corp FILE] [--json]",
  summary: "show rules that never decide, contradict each other, or match more than intended",
  notes: ["The exit code is 1 if a remark is an error."],
  options: [CORP_OPTION, JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin policy lint rules.toml --corp corp.toml"],
  async run(args) {
    const [path] = args.words;
    const remarks = lintPolicy(await policyOfFiles({ rules: path, corp: args.text("corp") }), {
      notes: true,
    });
    const ok = remarks.every(({ severity }) => severity !== "error");
    if (args.has("json")) {
      await print(formatJson({ schema: "sbx.policy-lint.v1", ok, path, lints: remarks }));
    } else if (!remarks.length) await print(`${path}: no remarks`);
    else for (const remark of remarks) await print(formatLint(remark));
    return ok ? 0 : 1;
  },
};

/** `sbx-admin policy test`: exits with 1 when a test fails. */
const policyTest: Command = {
  name: "policy test",
  usage: "TESTS_FILE [--rules FILE] [--corp FILE] [--junit FILE] [--json]",
  summary: "run given/when/then tests of rules without a VM",
  notes: ["The exit code is 1 if a test fails."],
  options: [
    { name: "rules", value: "FILE", about: "rules of the profile" },
    CORP_OPTION,
    { name: "junit", value: "FILE", about: "also write a JUnit report" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin policy test rules_test.jsonl --rules rules.toml"],
  async run(args) {
    const report = await runTestFile(args.words[0], { rules: args.text("rules"), corp: args.text("corp") });
    const out = args.text("junit");
    if (out) await Deno.writeTextFile(out, junitOf(report));
    if (args.has("json")) await print(formatJson({ schema: "sbx.policy-test.v1", ...report }));
    else {
      if (!report.ok) note(brief(formatFailures(report).join("\n")));
      await print(`${report.passed} passed, ${report.failed} failed`);
    }
    return report.ok ? 0 : 1;
  },
};

interface CheckReport {
  schema: "sbx.policy-check.v1";
  ok: boolean;
  path: string;
  rule_count: number;
  /** messages, each beginning with `file:line` */
  problems: string[];
}

async function check(path: string): Promise<CheckReport> {
  const schema = "sbx.policy-check.v1";
  try {
    const rules = await readRules(path);
    compilePolicy(rules);
    return { schema, ok: true, path, rule_count: rules.length, problems: [] };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { schema, ok: false, path, rule_count: 0, problems: error.message.split("\n") };
  }
}

export const group: CommandGroup = {
  name: "policy",
  summary: "check, lint and test rules",
  subcommands: [policyCheck, policyLint, policyTest],
};
