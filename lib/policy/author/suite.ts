/** Rule files and their tests as programs check them: `sbx policy`, `sbx-admin policy`. Loads zod. */
import { dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { parseTests, runTests, type TestReport } from "./fixture.ts";
import type { Lint } from "./lint.ts";
import { compilePolicy, type Policy } from "../engine/policy.ts";
import { readRules } from "./read.ts";

/** Which rules a file of tests is run with. */
export interface Under {
  /** rules of the profile, where a test names no file of its own */
  rules?: string;
  corp?: string;
}

/** @throws SbxError `policy.not_found`, `policy.invalid` */
export async function policyOfFiles({ rules, corp }: Under): Promise<Policy> {
  return compilePolicy([
    ...(rules ? await readRules(rules) : []),
    ...(corp ? await readRules(corp, ["corp"]) : []),
  ]);
}

/** Runs a file of given/when/then tests, without a VM. @throws SbxError `policy.not_found`, `policy.invalid` */
export async function testFile(path: string, { rules, corp }: Under): Promise<TestReport> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (cause) {
    throw new SbxError("policy.not_found", `the test file ${path} cannot be read`, {
      cause,
      hint: "give a file of tests, one JSON object a line",
    });
  }
  const policies = new Map<string, Promise<Policy>>();
  return await runTests(parseTests(text, path), path, (given) => {
    const file = given ? resolve(dirname(path), given) : rules ?? "";
    const known = policies.get(file) ?? policyOfFiles({ rules: file || undefined, corp });
    policies.set(file, known);
    return known;
  });
}

/** What failed, a line each with its place. */
export function failuresText({ path, results }: TestReport): string[] {
  return results.filter(({ ok }) => !ok).map(({ name, line, message }) =>
    `${path}:${line}: ${name}: ${message}`
  );
}

export function lintText({ severity, code, message, rule_id, layer, file, line, witness }: Lint): string {
  const place = file ? `${file}:${line}: ` : "";
  const shown = witness ? `\n    for example ${JSON.stringify(witness)}` : "";
  return `${place}${severity}: ${layer} rule "${rule_id}": ${message} [${code}]${shown}`;
}
