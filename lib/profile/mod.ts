/** Profiles: the contracts that VMs are created from (contracts.md §4). */
export { bootAssets } from "./asset.ts";
export { copyProfile } from "./copy.ts";
export { BUILTIN_PROFILES } from "./builtin.ts";
export { isCompatible, isSemVer } from "./compatible.ts";
export { type Arch, currentArch, type ProfileInfo, profileInfo, type ProfileInfoOptions } from "./info.ts";
export { type ListedProfile, listProfiles } from "./list.ts";
export { loadProfile, profilePath, validateProfile } from "./load.ts";
export { type McpServer, McpServers } from "./mcp.ts";
export { obomDescriptor, readObom } from "./obom.ts";
export { parseProfile, type Profile, type ProfileOrigin, requireCompatible } from "./profile.ts";
export { type ArchAssets, type Asset, type Obom, PROFILE_ID, ProfileFile, Provider } from "./schema.ts";
