/**
 * A repository or folder of a person into a VM, and the work on it back, checked
 * (docs/guides/repositories.md).
 */
export { BRING_STAGES, bringIn, type BringOptions, type BroughtIn, defaultPlace } from "./bring.ts";
export { bringLive, LIVE_STAGES } from "./live.ts";
export {
  changesOf,
  type CommitLine,
  type FileChange,
  patchOf,
  patchOfFile,
  type UnitChanges,
} from "./changes.ts";
export type { FolderLanded } from "./folder_land.ts";
export { pathText, shown, textOf } from "./text.ts";
export type { Guest, GuestOutput } from "./guest.ts";
export type { Entry, Landed } from "./land.ts";
export { BUNDLE_MAX } from "./limit.ts";
export {
  type Accepted,
  changesToPull,
  pullAccepted,
  type Pulled,
  type PullOptions,
  pullWork,
  requireRepository,
} from "./pull.ts";
export { Room } from "./record.ts";
export { entryOf, type Hunk, hunksOf } from "./review.ts";
export { personGit, sourcesOf } from "./source.ts";
export { type UnitWork, untakenOf, Work } from "./work.ts";
