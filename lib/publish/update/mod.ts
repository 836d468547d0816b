/** Updates of a home from a release channel: checks, profiles, history (docs/guides/updates.md). */
export { Change, readHistory, recordChange } from "./history.ts";
export { compareProfiles, fetchPins, installProfile, type OfferedProfile } from "./profile.ts";
export { intervalOf, jittered, parsePolicy } from "./source.ts";
export {
  fetchChannel,
  fetchDocument,
  releaseKeysOf,
  requireSource,
  type UpdateSource,
  updateSource,
} from "./source.ts";
export { UpdateCheck, UpdateStatus } from "./schema.ts";
export { describeCheck, newerProgram, saveCheck, updateStatus } from "./status.ts";
export {
  installProgram,
  type MachinePlaces,
  type ProgramChange,
  programPath,
  requireUnowned,
  restoreProgram,
} from "./program/mod.ts";
