/**
 * Reading, editing, linting and testing of rules, for their authors. Loads zod and the engine: import it on demand
 * where start time matters.
 */
export { draftProblem, type RuleDraft, withDraft } from "./draft.ts";
export { withoutRule, withRule } from "./edit.ts";
export {
  completeEvent,
  junitOf,
  parseTests,
  type PolicyTest,
  runTests,
  type TestReport,
  type TestResult,
} from "./fixture.ts";
export { type Lint, type LintCode, lintPolicy } from "./lint.ts";
export { parseRules, readRules, rulesOf } from "./read.ts";
export { type SavedRule, savedRule } from "./saved.ts";
export { type RuleTable } from "./schema.ts";
export { formatFailures, formatLint, policyOfFiles, type RuleFiles, runTestFile } from "./suite.ts";
