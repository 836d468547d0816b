/** A folder of the host shared with a guest as it is, with masks by name (docs/guides/live.md). */
export { guestGitDir, prepareShare, shareOf } from "./files.ts";
export { TOP_NAMES } from "./mask.ts";
export { serveLive } from "./serve.ts";
export { FolderChanges, type GuestAction } from "./watch.ts";
export { LiveRecord, LiveShare } from "./schema.ts";
