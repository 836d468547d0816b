/** Profiles learned from recorded sessions, and their proof by a replay. */
export { checkProfile, type LearnCheck, type RefusedEvent } from "./check.ts";
export {
  minimise,
  type Minimum,
  type RecordedCommand,
  type RecordedFile,
  type RecordedSteps,
  stepsOf,
  without,
} from "./minimise.ts";
export { OWN_PROGRAMS } from "./need.ts";
export {
  type LearnedProfile,
  type LearnOptions,
  learnProfile,
  profileRules,
  type ProvedRule,
} from "./profile.ts";
