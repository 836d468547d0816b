/** Tests of rules: given a policy, when an event happens, then a decision (issue 4). Loads zod. */
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { type Event, nearest, type PolicyContext } from "../../event/mod.ts";
import { PolicyContextSchema } from "../../event/schema.ts";
import type { Decision } from "../engine/decision.ts";
import type { Policy } from "../engine/policy.ts";

/** One line of a test file. */
export const PolicyTestSchema = z.strictObject({
  name: z.string().min(1).optional(),
  /** rule file that this test is about, beside the test file; default: the policy under test */
  given: z.strictObject({ rules: z.string().min(1) }).optional(),
  when: PolicyContextSchema,
  then: z.strictObject({
    decision: z.enum(["allow", "ask", "block"]),
    rule: z.string().optional(),
    layer: z.enum(["corp", "profile", "default", "none"]).optional(),
    /** rules that make a finding, in any order */
    findings: z.array(z.string()).optional(),
  }),
});
export type PolicyTest = z.infer<typeof PolicyTestSchema>;

/** A test with the line that it stands on. */
export interface LocatedTest extends PolicyTest {
  line: number;
}

/** What became of one test. */
export interface TestResult {
  name: string;
  line: number;
  ok: boolean;
  /** what was expected and what came instead */
  message?: string;
  decision?: Decision;
  duration_ms: number;
}

/** What became of a file of tests. */
export interface TestReport {
  ok: boolean;
  path: string;
  passed: number;
  failed: number;
  results: TestResult[];
}

/**
 * Reads tests, one JSON object a line; empty lines and lines that begin with `#` are skipped.
 *
 * @throws SbxError `policy.invalid` with file, line and what is wrong there
 */
export function parseTests(text: string, path: string): LocatedTest[] {
  return text.split("\n").flatMap((content, at) => {
    if (!content.trim() || content.startsWith("#")) return [];
    let value: unknown;
    try {
      value = JSON.parse(content);
    } catch {
      throw new SbxError("policy.invalid", `${path}:${at + 1}: not a JSON object`);
    }
    const parsed = PolicyTestSchema.safeParse(value);
    if (!parsed.success) {
      throw new SbxError("policy.invalid", `${path}:${at + 1}: ${issueText(parsed.error)}`);
    }
    return [{ ...parsed.data, line: at + 1 }];
  });
}

/**
 * Runs tests against their policies.
 *
 * @param policyFor the policy for `given.rules`, or the one under test for `undefined`
 */
export async function runTests(
  tests: readonly LocatedTest[],
  path: string,
  policyFor: (rules: string | undefined) => Policy | Promise<Policy>,
): Promise<TestReport> {
  const results: TestResult[] = [];
  for (const test of tests) results.push(runTest(test, await policyFor(test.given?.rules)));
  const failed = results.filter(({ ok }) => !ok).length;
  return { ok: failed === 0, path, passed: results.length - failed, failed, results };
}

function runTest({ name, line, when, then }: LocatedTest, policy: Policy): TestResult {
  const started = performance.now();
  const { decision, findings } = policy.evaluate(completeEvent(when), { explain: true });
  const found = findings.map(({ rule_id }) => rule_id).sort();
  const wrong: string[] = [];
  const expect = (what: string, expected: string | undefined, actual: string) => {
    if (expected !== undefined && expected !== actual) {
      wrong.push(`${what}: expected ${expected}, got ${actual}`);
    }
  };
  expect("decision", then.decision, decision.decision);
  expect("rule", then.rule, decision.rule.id);
  expect("layer", then.layer, decision.rule.layer);
  expect("findings", then.findings && then.findings.toSorted().join(", "), found.join(", "));
  return {
    name: name ?? `line ${line}`,
    line,
    ok: wrong.length === 0,
    ...(wrong.length && { message: wrong.join("; ") }),
    decision,
    duration_ms: Math.round((performance.now() - started) * 1000) / 1000,
  };
}

/** An event with the common fields that people leave out; nothing else is made up. */
export function completeEvent(context: PolicyContext): Event {
  const { common, ...family } = context as {
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

/** The report as JUnit XML, for build servers. */
export function junit({ path, results, failed }: TestReport): string {
  const cases = results.map(({ name, ok, message, duration_ms }) => {
    const open = `  <testcase classname="${xml(path)}" name="${xml(name)}" time="${duration_ms / 1000}"`;
    return ok ? `${open}/>` : `${open}>\n    <failure message="${xml(message!)}"/>\n  </testcase>`;
  });
  return [
    `<?xml version="1.0" encoding="UTF-8"?>`,
    `<testsuite name="${xml(path)}" tests="${results.length}" failures="${failed}">`,
    ...cases,
    `</testsuite>`,
    "",
  ].join("\n");
}

/** First issue of a failed check, with what was probably meant. */
function issueText(error: z.ZodError): string {
  const [issue] = error.issues;
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
    return `${path ? `${path}: ` : ""}unknown key "${issue.keys[0]}"${
      near ? `; did you mean "${near}"?` : ""
    }`;
  }
  return `${path ? `${path}: ` : ""}${issue.message}`;
}

function xml(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "�").replace(
    /[<>&"\n]/g,
    (char) => `&#${char.charCodeAt(0)};`,
  );
}
