/**
 * The publisher's side of the release graph: a workspace, its keys, and the tree that a web server serves
 * (docs/guides/releases.md).
 */
export { describeBundle } from "./add.ts";
export { addEntries, type Entries, openRelease, type Target } from "./add.ts";
export { checkWorkspace } from "./check.ts";
export { initWorkspace, type NewWorkspace } from "./workspace.ts";
export { type PublisherKeys, readPublisherKeys } from "./sign.ts";
export { markRelease, stageRelease } from "./sign.ts";
export { describePackage, type PackageFiles } from "./package.ts";
export { describeProfile, type ProfileFiles } from "./profile.ts";
export { type Published, publishTree } from "./publish.ts";
export { serveTree, type TreeServer } from "./serve.ts";
export { signWorkspace } from "./sign.ts";
export { KEYS, TRUST, Workspace } from "./workspace.ts";
