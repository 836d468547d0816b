/** Profiles learned from recorded sessions, and their proof by a replay. */
export { checkProfile, type LearnCheck, type RefusedEvent } from "./check.ts";
export {
  type LearnedProfile,
  type LearnOptions,
  learnProfile,
  profileRules,
  type ProvedRule,
} from "./profile.ts";
