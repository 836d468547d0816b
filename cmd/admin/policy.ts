import { SbxError } from "../../lib/base/error/mod.ts";
import { junit } from "../../lib/policy/author/fixture.ts";
import { lintPolicy } from "../../lib/policy/author/lint.ts";
import { compilePolicy } from "../../lib/policy/mod.ts";
import { readRules } from "../../lib/policy/author/read.ts";
import { failuresText, lintText, policyOfFiles, testFile } from "../../lib/policy/author/suite.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

/** `sbx-admin policy check`: exit 1 when a rule of the file is not right. */
export const policyCheck: Command = {
  name: "policy check",
  synopsis: "<rules_toml> [--json]",
  summary: "read and compile a rule file; names every rule that is wrong, with its line",
  async run(args) {
    const { switches, positionals: [path] } = parseArguments(args, {
      values: [],
      switches: ["json"],
      positionals: ["<rules_toml>"],
    });
    const report = await check(path);
    if (switches.has("json")) console.log(JSON.stringify(report));
    else if (report.ok) {
      console.log(`${path} is right: ${report.rule_count} ${report.rule_count === 1 ? "rule" : "rules"}`);
    } else console.error(report.problems.join("\n"));
    return report.ok ? 0 : 1;
  },
};

/** `sbx-admin policy lint`: exit 1 when there is an error among the remarks; warnings are for people. */
export const policyLint: Command = {
  name: "policy lint",
  synopsis: "<rules_toml> [--corp <rules_toml>] [--json]",
  summary: "show rules that never decide, contradict each other, or match more than they look like",
  async run(args) {
    const { switches, values, positionals: [path] } = parseArguments(args, {
      values: ["corp"],
      switches: ["json"],
      positionals: ["<rules_toml>"],
    });
    const remarks = lintPolicy(await policyOfFiles({ rules: path, corp: values.corp }));
    const ok = remarks.every(({ severity }) => severity !== "error");
    if (switches.has("json")) {
      console.log(JSON.stringify({ schema: "sbx.policy-lint.v1", ok, path, lints: remarks }));
    } else if (!remarks.length) console.log(`${path}: nothing to say`);
    else for (const remark of remarks) console.log(lintText(remark));
    return ok ? 0 : 1;
  },
};

/** `sbx-admin policy test`: exit 1 when a test fails. */
export const policyTest: Command = {
  name: "policy test",
  synopsis: "<tests_jsonl> [--rules <rules_toml>] [--corp <rules_toml>] [--json] [--junit <file>]",
  summary: "run given/when/then tests of rules, without a VM",
  async run(args) {
    const { switches, values, positionals: [path] } = parseArguments(args, {
      values: ["rules", "corp", "junit"],
      switches: ["json"],
      positionals: ["<tests_jsonl>"],
    });
    const report = await testFile(path, values);
    if (values.junit) await Deno.writeTextFile(values.junit, junit(report));
    if (switches.has("json")) console.log(JSON.stringify({ schema: "sbx.policy-test.v1", ...report }));
    else {
      for (const failure of failuresText(report)) console.error(failure);
      console.log(`${report.passed} passed, ${report.failed} failed`);
    }
    return report.ok ? 0 : 1;
  },
};

interface CheckReport {
  schema: "sbx.policy-check.v1";
  ok: boolean;
  path: string;
  rule_count: number;
  /** one message each, beginning with `file:line` */
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
