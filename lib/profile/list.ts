import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { BUILTIN_PROFILES } from "./builtin.ts";
import { loadProfile, profilePath } from "./load.ts";
import type { Profile } from "./profile.ts";

/** A profile, or what keeps a profile's folder from being one. */
export type ListedProfile =
  | { id: string; source: Profile["source"]; profile: Profile }
  | { id: string; source: Profile["source"]; error: SbxError };

/** Every profile by id, the user's and the built-in ones. A broken one is listed with its error. */
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
      return { id, source, error: error.code === "profile.not_found" ? misnamed(home, id, error) : error };
    }
  }));
}

/** Folders with a profile.toml in them, or something else at its place. */
async function userProfileIds(home: Pick<Home, "profilesDir">): Promise<string[]> {
  const ids: string[] = [];
  try {
    for await (const entry of Deno.readDir(home.profilesDir)) {
      if (entry.name.startsWith(".") || entry.isFile) continue;
      if (await Deno.lstat(profilePath(home, entry.name)).then(() => true, () => false)) ids.push(entry.name);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) {
      throw new SbxError("profile.unreadable", `${home.profilesDir}: the profiles in it cannot be listed`, {
        cause: error,
        hint: "give your user read permission on it",
      });
    }
  }
  return ids;
}

/** A folder is there, so what hides the profile is the folder's name. */
function misnamed(home: Pick<Home, "profilesDir">, id: string, cause: SbxError): SbxError {
  return new SbxError(
    "profile.invalid",
    `${profilePath(home, id)}: the folder's name ${JSON.stringify(id)} is not 1 to 64 of a-z 0-9 _ -`,
    { cause, hint: "rename the folder to the profile's id" },
  );
}
