/**
 * One policy engine for six families (contracts.md §5): rules → compiled set → decision. Nothing here loads zod:
 * import `read.ts` to read rule files.
 */
export { inCidr, isPrivateHost, parseAddress, parseCidr } from "./address.ts";
export {
  type Ask,
  ASK_TIMEOUT_MS,
  type AskAnswer,
  type AskOptions,
  AskQueue,
  type AskRecord,
  type AskStatus,
} from "./ask.ts";
export { COST_MAX } from "./cel.ts";
export * from "./decision.ts";
export { DEFAULT_RULES } from "./defaults.ts";
export type { Draft, Gate, Outcome, Refusal, Verdict } from "./gate.ts";
export { compilePolicy, type EvaluateOptions, Policy } from "./policy.ts";
export {
  type Action,
  ACTIONS,
  compareRules,
  type DetectionLevel,
  type Layer,
  LAYERS,
  type RewriteOp,
  type Rule,
} from "./rule.ts";
export { subjectOf } from "./why.ts";
