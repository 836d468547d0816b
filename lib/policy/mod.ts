/**
 * One policy engine for six families (contracts.md §5): rules → compiled set → decision. Nothing here loads zod:
 * import `read.ts` to read rule files.
 */
export { inCidr, isPrivateHost, parseAddress, parseCidr } from "../base/address/address.ts";
export {
  type Ask,
  ASK_TIMEOUT_MS,
  type AskAnswer,
  type AskOptions,
  AskQueue,
  type AskRecord,
  type AskStatus,
} from "./ask/queue.ts";
export { COST_MAX } from "./engine/cel.ts";
export * from "./engine/decision.ts";
export { DEFAULT_RULES } from "./engine/defaults.ts";
export type { Draft, Gate, Outcome, Refusal, Verdict } from "./gate.ts";
export { compilePolicy, type EvaluateOptions, Policy } from "./engine/policy.ts";
export {
  type Action,
  ACTIONS,
  compareRules,
  type DetectionLevel,
  type Layer,
  LAYERS,
  type RewriteOp,
  type Rule,
} from "./engine/rule.ts";
export { subjectOf } from "./engine/why.ts";
