/** Profiles learned from recorded sessions, and their proof by a replay. */
export { checkProfile, type LearnCheck, type RefusedEvent } from "./check.ts";
export { commandsOf, minimise, type Minimum, type RecordedCommand, without } from "./minimise.ts";
export {
  type LearnedProfile,
  type LearnOptions,
  learnProfile,
  profileRules,
  type ProvedRule,
} from "./profile.ts";
