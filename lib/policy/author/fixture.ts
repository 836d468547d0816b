/**
 * Checks of rule files for `sbx policy` and `sbx-admin policy`, and rule tests: given a policy, when an
 * event occurs, then a decision. Loads zod.
 */
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { NestingError, parseJson, ReservedKeyError } from "../../base/json/mod.ts";
import { formatJunit } from "../../base/junit/mod.ts";
import { nearest, suggestion } from "../../base/text/mod.ts";
import { type Event, normalizeContext, type PolicyContext } from "../../event/mod.ts";
import { PolicyContextSchema } from "../../event/schema.ts";
import type { Decision } from "../decision/mod.ts";
import { compilePolicy, Policy } from "../engine/policy.ts";
import { dirname, resolve } from "node:path";
import type { Lint } from "./lint.ts";
import { readRules, ruleOf } from "./read.ts";
import { compileMatch, compileRule } from "../engine/compile.ts";
import { MatchError } from "../engine/field.ts";
import { History, HISTORY_ENTRIES_MAX } from "../engine/history.ts";
import type { Rule } from "../engine/rule.ts";
import { rulesSchema, type RuleTable } from "./schema.ts";

/** One line of a test file. */
export const PolicyTestSchema = z.strictObject({
  name: z.string().min(1).optional(),
  /** rule file relative to the test file; default: the policy under test */
  given: z.strictObject({ rules: z.string().min(1) }).optional(),
  /** events of the same VM before, which went ahead, oldest first */
  before: z.array(PolicyContextSchema).max(HISTORY_ENTRIES_MAX).optional(),
  when: PolicyContextSchema,
  then: z.strictObject({
    decision: z.enum(["allow", "ask", "block"]),
    rule: z.string().optional(),
    layer: z.enum(["corp", "profile", "default", "none"]).optional(),
    /** ids of the rules with a finding, in any order */
    findings: z.array(z.string()).optional(),
  }),
});
export type PolicyTest = z.infer<typeof PolicyTestSchema>;

/** Test with its line in the file, or the problem of a line that cannot be read. */
export type LocatedTest = (PolicyTest & { line: number; problem?: undefined }) | {
  line: number;
  problem: string;
};

/** Result of one test. */
export interface TestResult {
  name: string;
  line: number;
  ok: boolean;
  /** expected and actual values of a failed test */
  message?: string;
  decision?: Decision;
  duration_ms: number;
}

/** Results of a test file. */
export interface TestReport {
  ok: boolean;
  path: string;
  passed: number;
  failed: number;
  results: TestResult[];
}

/**
 * Parses tests, one JSON object per line; skips empty lines and lines that begin with
 * `#`. A bad line hides no other.
 */
export function parseTests(text: string): LocatedTest[] {
  return text.split("\n").flatMap((content, at): LocatedTest[] => {
    if (!content.trim() || content.startsWith("#")) return [];
    let value: unknown;
    try {
      value = parseJson(content);
    } catch (error) {
      const problem = error instanceof NestingError || error instanceof ReservedKeyError
        ? error.message
        : "not valid JSON";
      return [{ line: at + 1, problem }];
    }
    const parsed = PolicyTestSchema.safeParse(value);
    if (!parsed.success) return [{ line: at + 1, problem: describeIssue(parsed.error) }];
    return [{ ...parsed.data, line: at + 1 }];
  });
}

/**
 * Runs tests against their policies.
 *
 * @param policyFor returns the policy for `given.rules`, or the one under test for `undefined`
 */
export async function runTests(
  tests: readonly LocatedTest[],
  path: string,
  policyFor: (rules: string | undefined) => Policy | Promise<Policy>,
): Promise<TestReport> {
  const results: TestResult[] = [];
  for (const test of tests) results.push(await runOne(test, policyFor));
  const failed = results.filter(({ ok }) => !ok).length;
  return { ok: failed === 0, path, passed: results.length - failed, failed, results };
}

/** Runs one test; a line or rules that cannot be read are a failure of its own. */
async function runOne(
  test: LocatedTest,
  policyFor: (rules: string | undefined) => Policy | Promise<Policy>,
): Promise<TestResult> {
  const failed = (name: string, message: string) => ({
    name,
    line: test.line,
    ok: false,
    message,
    duration_ms: 0,
  });
  if (test.problem !== undefined) return failed(`line ${test.line}`, test.problem);
  const rules = test.given?.rules;
  try {
    return runTest(test, await policyFor(rules));
  } catch (error) {
    // The policy under test is the error of every test, not of this one.
    if (!(error instanceof SbxError) || rules === undefined) throw error;
    return failed(test.name ?? `line ${test.line}`, error.message.replaceAll("\n", "; "));
  }
}

function runTest(
  { name, line, before = [], when, then }: PolicyTest & { line: number },
  policy: Policy,
): TestResult {
  const started = performance.now();
  const history = new History(policy.counters);
  for (const [at, event] of before.entries()) {
    const event_id = (at + 1).toString(16).padStart(12, "0");
    history.record(completeEvent({ ...event, common: { event_id, ...event.common } }));
  }
  const { decision, findings } = policy.evaluate(completeEvent(when), { explain: true, history });
  const ruleIds = findings.map(({ rule_id }) => rule_id).sort();
  const mismatches: string[] = [];
  const compare = (field: string, expected: string | undefined, actual: string) => {
    if (expected !== undefined && expected !== actual) {
      mismatches.push(`${field}: expected ${expected}, got ${actual}`);
    }
  };
  compare("decision", then.decision, decision.decision);
  compare("rule", then.rule, decision.rule.id);
  compare("layer", then.layer, decision.rule.layer);
  compare("findings", then.findings && then.findings.toSorted().join(", "), ruleIds.join(", "));
  return {
    name: name ?? `line ${line}`,
    line,
    ok: mismatches.length === 0,
    ...(mismatches.length && { message: mismatches.join("; ") }),
    decision,
    duration_ms: Math.round((performance.now() - started) * 1000) / 1000,
  };
}

/**
 * Fills in the required common fields that tests leave out, and writes names as events do; adds nothing else.
 */
export function completeEvent(context: PolicyContext): Event {
  const { common, ...family } = normalizeContext(context) as {
    common: Partial<Event["common"]> & Pick<Event["common"], "event_type">;
  };
  return {
    ...family,
    schema_version: 1,
    common: {
      event_id: "000000000000",
      session_id: "test",
      timestamp_unix_ms: 0,
      sequence: 0,
      labels: {},
      ...common,
    },
  } as unknown as Event;
}

/** Formats a report as JUnit XML. */
export function junitOf({ path, results }: TestReport): string {
  const cases = results.map(({ name, ok, message, duration_ms }) => ({
    name,
    ...(!ok && { failure: message }),
    durationMs: duration_ms,
  }));
  return formatJunit({ name: path, className: path, cases });
}

/** Describes the first issue of a failed check, with a suggestion. */
function describeIssue(error: z.ZodError): string {
  // A key with a typo is also missing under its right name: the typo says more.
  const issue = error.issues.find(({ code }) => code === "unrecognized_keys") ?? error.issues[0];
  const path = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    const near = nearest(issue.keys[0], [
      "name",
      "given",
      "when",
      "then",
      "decision",
      "rule",
      "layer",
      "findings",
    ]);
    return `${path ? `${path}: ` : ""}unknown key "${issue.keys[0]}"${near ? `; ${suggestion(near)}` : ""}`;
  }
  return `${path ? `${path}: ` : ""}${issue.message}`;
}

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

/**
 * Runs a file of given/when/then tests, without a VM.
 *
 * @param tested rule files, or a policy
 * @throws {SbxError} `policy.not_found`, `policy.invalid`
 */
export async function runTestFile(path: string, tested: RuleFiles | Policy): Promise<TestReport> {
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
  return await runTests(parseTests(text), path, (testRules) => {
    if (tested instanceof Policy && testRules === undefined) return tested;
    const { rules, corp } = tested instanceof Policy ? {} as RuleFiles : tested;
    const file = testRules ? resolve(dirname(path), testRules) : rules ?? "";
    const policy = policies.get(file) ?? policyOfFiles({ rules: file || undefined, corp });
    policies.set(file, policy);
    return policy;
  });
}

/** Most failed tests that are shown; `--json` and JUnit have all. */
const FAILURES_SHOWN = 20;

/** Formats failed tests, one line each with its place. */
export function formatFailures({ path, results }: TestReport): string[] {
  const failures = results.filter(({ ok }) => !ok).map(({ name, line, message }) =>
    `${path}:${line}: ${name}: ${message}`
  );
  const more = failures.length - FAILURES_SHOWN;
  return more > 0 ? [...failures.slice(0, FAILURES_SHOWN), `… and ${more} more`] : failures;
}

/** Formats a lint finding with its place and example event. */
export function formatLint({ severity, code, message, rule_id, layer, file, line, witness }: Lint): string {
  const place = file ? `${file}:${line}: ` : "";
  const example = witness ? `\n    for example ${JSON.stringify(witness)}` : "";
  return `${place}${severity}: ${layer} rule "${rule_id}": ${message} [${code}]${example}`;
}

/** An unsaved rule, new or in place of one with its id. */
export interface RuleDraft {
  rule_id: string;
  rule: RuleTable;
}

/** The rules of a profile's file with a draft among them. */
export function withDraft(rules: readonly Rule[], { rule_id, rule }: RuleDraft): Rule[] {
  const isSame = ({ id, layer }: Rule) => layer === "profile" && id === rule_id;
  const { file, line } = rules.find(isSame) ?? {};
  return [...rules.filter((each) => !isSame(each)), ruleOf("profile", rule_id, rule, { file, line })];
}

/** Why a draft cannot be saved, as a remark of the code `invalid`; `undefined` where it can. */
export function draftProblem({ rule_id, rule }: RuleDraft): Lint | undefined {
  const { error } = rulesSchema("profile").safeParse({ [rule_id]: rule });
  if (error) return problemOf(rule_id, error.issues[0].message);
  try {
    compileMatch(rule.match);
    compileRule(ruleOf("profile", rule_id, rule));
  } catch (error) {
    if (error instanceof MatchError) return { ...problemOf(rule_id, error.message), at: error.at };
    if (error instanceof SbxError && error.cause instanceof MatchError) {
      return problemOf(rule_id, error.cause.message);
    }
    throw error;
  }
}

function problemOf(rule_id: string, message: string): Lint {
  return { code: "invalid", severity: "error", rule_id, layer: "profile", message };
}
