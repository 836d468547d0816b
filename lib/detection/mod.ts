/**
 * Detections in compiled form and the matcher that evaluates them (docs/design/contracts/06-detection.md §6).
 * They never block. This file loads no zod and no native code: `pack/` and `compile/` read and compile
 * packs, `active/` loads packs and stores overlays, `replay/` evaluates recorded events.
 */
export {
  type DetectionFinding,
  findingOf,
  type LoadedRule,
  Matcher,
  mergeCounters,
  type RuleCounter,
} from "./match/matcher.ts";
export * from "./ir/ir.ts";
export {
  dropDuplicates,
  type DroppedRule,
  maySwitchOff,
  type PackIdentity,
  type PackPin,
  requireInstallable,
  requirePinned,
  withoutRules,
} from "./active/pin.ts";
export type { Matchable } from "./match/index_node.ts";
export { type Compiled, type CompiledRule, isPlan, packOfRules, rulesOf, testedFields } from "./compiled.ts";
export type { SigmaPlan } from "./rule/plan.ts";
export type { MatchPhase } from "./rule/run/engine.ts";
