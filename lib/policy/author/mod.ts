/**
 * Reading, editing, linting and testing of rules, for their authors. Loads zod and the engine: import it on
 * demand where start time matters.
 */
export {
  completeEvent,
  draftProblem,
  formatFailures,
  formatLint,
  junitOf,
  parseTests,
  policyOfFiles,
  type PolicyTest,
  type RuleDraft,
  type RuleFiles,
  runTestFile,
  runTests,
  type TestReport,
  type TestResult,
  withDraft,
} from "./fixture.ts";
export { checkRuleText, type FileCheck, type FileProblem, formatProblem } from "./check.ts";
export { parseRules, readRules, rulesOf, withoutRule, withRule } from "./read.ts";
export { type Lint, type LintCode, lintPolicy } from "./lint.ts";
export { type SavedRule, savedRule } from "../ask/scope.ts";
export type { RuleTable } from "./schema.ts";
