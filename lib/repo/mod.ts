/**
 * A repository or folder of a person into a VM, and the work on it back, checked
 * (docs/guides/repositories.md).
 */
export {
  BRING_STAGES,
  bringIn,
  bringLive,
  type BringOptions,
  type BroughtIn,
  defaultPlace,
  LIVE_STAGES,
} from "./bring.ts";
export {
  changesOf,
  type CommitLine,
  entryOf,
  type FileChange,
  type Hunk,
  hunksOf,
  patchOf,
  patchOfFile,
  type UnitChanges,
  wholePatchOf,
} from "./changes.ts";
export { combine, type Pick, piecesOf, SHOWN_ID_LENGTH, shownId } from "./combine.ts";
export type { Entry, FolderLanded, Landed } from "./land.ts";
export { fromLatin1, pathText, shown, textOf } from "./text.ts";
export { type Guest, type GuestOutput, OWN, type RepositoryWork, repositoryWork } from "./guest.ts";
export { looksSecret } from "./name/mod.ts";
export { BUNDLE_MAX } from "./limit.ts";
export {
  type Accepted,
  applyWork,
  changesToPull,
  pullAccepted,
  type Pulled,
  type PullOptions,
  pullWork,
  requireRepository,
} from "./pull.ts";
export { type RepositoryRecord, returning } from "./record.ts";
export { Room, Untaken } from "./store.ts";
export { personGit, sourcesOf } from "./source.ts";
export { History, type State, type StateTarget, type Undone } from "./undo.ts";
export { noteUntaken, type UnitWork, untakenOf, Work } from "./work.ts";
export { yoursIn } from "./yours.ts";
