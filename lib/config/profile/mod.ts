/** Profiles: contracts of VMs (docs/design/contracts/04-profiles.md §4). */
export {
  Agent,
  agentFiles,
  type AgentModel,
  historyPaths,
  modelWords,
  needsModel,
  PROMPT,
} from "./schema.ts";
export type { AgentSetup, SettingsFile } from "./setup.ts";
export { bootAssets, environmentOf, hasPackagesOnTop, imageReference, pinnedNames } from "./asset.ts";
export { copyProfile, saveProfile } from "./copy.ts";
export { BUILTIN_PROFILES } from "./builtin.ts";
export { type GeneratedAssets, generateProfile } from "./generate.ts";
export { type ProfileInfo, profileInfo, type ProfileInfoOptions } from "./info.ts";
export { type HostService, hostServices } from "./host_service.ts";
export { type ListedImage, listImages } from "./image.ts";
export { type ListedProfile, listProfiles } from "./load.ts";
export { loadProfile, profilePath, validateProfile } from "./load.ts";
export { CorpMcpServers, type McpServer, McpServers } from "./mcp/schema.ts";
export {
  addedLines,
  isAptPackage,
  type Packages,
  type PinnedFile,
  recordedPackages,
  type Suite,
  SUITES,
} from "./packages.ts";
export { PROFILE_ID } from "./limit/schema.ts";
export { describeObom, GUEST_VERSION_PROPERTY, guestVersion } from "./obom.ts";
export { missingObom, obomDescriptor, readObom } from "./obom.ts";
export { parseProfile, type Profile, type ProfileOrigin, requireCompatible } from "./profile.ts";
export { type ArchAssets, type Asset, type Obom, ProfileFile } from "./schema.ts";
export { emptyOverlay, overlayPath, parseOverlay, type ProfileOverlay } from "./overlay.ts";
export { isReservedVariable } from "./variable.ts";
export { isTrial, newTrialId, trialsDir } from "./trial.ts";
