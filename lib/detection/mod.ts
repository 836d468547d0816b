/**
 * Detections: what they are once compiled, and the matcher that finds events with them (contracts.md §6). They never
 * block. Nothing here loads zod or native code: `pack/pack.ts` and `compile.ts` read packs, `live/` loads them and keeps
 * overlays, `replay/` runs them over what was recorded.
 */
export { type DetectionFinding, findingOf } from "./finding.ts";
export * from "./ir.ts";
export { type PackIdentity, type PackPin, requireInstallable, requirePinned } from "./live/pin.ts";
export { mergeCounters, type RuleCounter } from "./match/counter.ts";
export type { Matchable } from "./match/index_node.ts";
export { type LoadedRule, Matcher } from "./match/matcher.ts";
