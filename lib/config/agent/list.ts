import { currentArch } from "../../base/arch/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { type Agent, bootAssets, listProfiles, type Profile } from "../profile/mod.ts";

/** A profile with the command of its agent. */
export type AgentProfile = Profile & { agent: Agent };

/** Profiles with an `[agent]`, by id, each with the version of its image; absent: it has none. */
export async function listAgents(home: Home): Promise<{ profile: AgentProfile; version?: string }[]> {
  const profiles = (await listProfiles(home)).flatMap((each) =>
    "profile" in each && isAgent(each.profile) ? [each.profile] : []
  );
  return await Promise.all(profiles.map(async (profile) => {
    const assets = await bootAssets(home, profile, currentArch()).catch(() => undefined);
    return { profile, ...assets && { version: assets.version } };
  }));
}

export function isAgent(profile: Profile): profile is AgentProfile {
  return profile.agent !== undefined;
}
