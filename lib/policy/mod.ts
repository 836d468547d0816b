/**
 * Policy engine for all event families (docs/design/contracts/05-policy.md §5): rules → compiled set →
 * decision. Does not load zod: import `author/mod.ts` to read rule files.
 */
export { coveredMatch, HOST_ACCESS } from "./ask/scope.ts";
export { ASK_TIMEOUT, ASK_TIMEOUT_MAX } from "./ask/limit.ts";
export { type AskOptions, AskQueue } from "./ask/queue.ts";
export type { AskRecord, Refusal } from "./decision/decision.ts";
export type { AnsweredBy, Ask, AskAnswer, AskInForce, AskReach } from "./ask/schema.ts";
export { COST_MAX } from "./engine/cel.ts";
export * from "./decision/mod.ts";
export { compareRules, DEFAULT_RULES, type RewriteOp, type Rule } from "./engine/rule.ts";
export {
  compileLayers,
  compilePolicy,
  type EvaluateOptions,
  Policy,
  type RuleLayers,
} from "./engine/policy.ts";
export { rulePlace } from "./engine/compile.ts";
export { MESSAGE, type MessageRead, messageReads } from "./engine/message.ts";
export { isNarrowing, joinNarrowing, narrowing, PROJECT_FILE } from "./engine/narrow.ts";
export { History, HISTORY_WINDOW_MAX_MS, type KnownHosts, type KnownScope } from "./engine/history.ts";
export {
  type ContactField,
  contactOf,
  contactsPath,
  type ContactTable,
  emptyContacts,
  formatContacts,
  parseContacts,
} from "./engine/contact.ts";
export { Replay, Watch } from "./engine/replay.ts";
export type { Observation, ObservePhase } from "./engine/observe.ts";
export type { Draft, Gate, Outcome, Passage, Verdict } from "./gate.ts";
export {
  type Action,
  ACTIONS,
  type Layer,
  LAYERS,
  PRIORITY_DEFAULT,
  type Protocol,
  PROTOCOLS,
} from "./engine/rule_term.ts";
export { subjectOf, withValuesOf } from "./engine/run.ts";
