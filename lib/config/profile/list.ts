import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { BUILTIN_PROFILES } from "./builtin.ts";
import { loadProfile, profilePath } from "./load.ts";
import type { Profile } from "./profile.ts";

/** A profile, or the error of a broken one. */
export type ListedProfile =
  | { id: string; source: Profile["source"]; profile: Profile }
  | { id: string; source: Profile["source"]; error: SbxError };

/** Lists all profiles by id, the user's and the built-in ones. A broken profile is listed with its error. */
export async function listProfiles(home: Pick<Home, "profilesDir">): Promise<ListedProfile[]> {
  const users = await userProfileIds(home);
  const ids = [...new Set([...users, ...BUILTIN_PROFILES.keys()])].sort();
  return await Promise.all(ids.map(async (id): Promise<ListedProfile> => {
    const source = users.includes(id) ? "user" : "builtin";
    try {
      const profile = await loadProfile(home, id);
      return { id, source: profile.source, profile };
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      return { id, source, error: error.code === "profile.not_found" ? nameError(home, id, error) : error };
    }
  }));
}

/** Names of folders with a profile.toml, whether or not that is a file. */
async function userProfileIds(home: Pick<Home, "profilesDir">): Promise<string[]> {
  const ids: string[] = [];
  try {
    for await (const entry of Deno.readDir(home.profilesDir)) {
      if (entry.name.startsWith(".") || entry.isFile) continue;
      if (await Deno.lstat(profilePath(home, entry.name)).then(() => true, () => false)) ids.push(entry.name);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) {
      throw new SbxError("profile.unreadable", `cannot list the profiles in ${home.profilesDir}`, {
        cause: error,
        hint: "give your user read permission on it",
      });
    }
  }
  return ids;
}

/** Error for a folder whose name is not a profile id, so that its profile cannot be found. */
function nameError(home: Pick<Home, "profilesDir">, id: string, cause: SbxError): SbxError {
  return new SbxError(
    "profile.invalid",
    `${profilePath(home, id)}: the folder name ${JSON.stringify(id)} is not 1 to 64 of a-z 0-9 _ -`,
    { cause, hint: "rename the folder to the profile's id" },
  );
}
