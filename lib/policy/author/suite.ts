/** Checks of rule files and their tests, for `sbx policy` and `sbx-admin policy`. Loads zod. */
import { dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { compilePolicy } from "../engine/compile_policy.ts";
import type { Policy } from "../engine/policy.ts";
import { parseTests, runTests, type TestReport } from "./fixture.ts";
import type { Lint } from "./lint.ts";
import { readRules } from "./read.ts";

/** Rule files to compile into one policy. */
export interface RuleFiles {
  /** profile rules; replaced by the rule file of a test, if it names one */
  rules?: string;
  corp?: string;
}

/** Compiles rule files to a policy. @throws {SbxError} `policy.not_found`, `policy.invalid` */
export async function policyOfFiles({ rules, corp }: RuleFiles): Promise<Policy> {
  return compilePolicy([
    ...(rules ? await readRules(rules) : []),
    ...(corp ? await readRules(corp, ["corp"]) : []),
  ]);
}

/** Runs a file of given/when/then tests, without a VM. @throws {SbxError} `policy.not_found`, `policy.invalid` */
export async function runTestFile(path: string, { rules, corp }: RuleFiles): Promise<TestReport> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (cause) {
    throw new SbxError("policy.not_found", `cannot read the test file ${path}`, {
      cause,
      hint: "name a test file with one JSON object per line",
    });
  }
  const policies = new Map<string, Promise<Policy>>();
  return await runTests(parseTests(text, path), path, (testRules) => {
    const file = testRules ? resolve(dirname(path), testRules) : rules ?? "";
    const policy = policies.get(file) ?? policyOfFiles({ rules: file || undefined, corp });
    policies.set(file, policy);
    return policy;
  });
}

/** Formats failed tests, one line each with its place. */
export function formatFailures({ path, results }: TestReport): string[] {
  return results.filter(({ ok }) => !ok).map(({ name, line, message }) =>
    `${path}:${line}: ${name}: ${message}`
  );
}

/** Formats a lint finding with its place and example event. */
export function formatLint({ severity, code, message, rule_id, layer, file, line, witness }: Lint): string {
  const place = file ? `${file}:${line}: ` : "";
  const example = witness ? `\n    for example ${JSON.stringify(witness)}` : "";
  return `${place}${severity}: ${layer} rule "${rule_id}": ${message} [${code}]${example}`;
}
