/** Finds and reads profiles of a home. */
import { basename, dirname, join, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { parseToml, readToml, type TomlDocument } from "../../base/toml/mod.ts";
import { BUILTIN_PROFILES } from "./builtin.ts";
import { readOverlay } from "./overlay.ts";
import { parseProfile, type Profile } from "./profile.ts";
import { PROFILE_ID } from "./limit/schema.ts";

/** Path of the user's profile of this id, existing or not. */
export function profilePath(home: Pick<Home, "profilesDir">, id: string): string {
  return join(home.profilesDir, id, "profile.toml");
}

/**
 * Loads the profile of this id: the user's own, else the built-in one. The required sbx version is not
 * enforced here; see `compatible` and {@linkcode requireCompatible}.
 *
 * @throws {SbxError} `profile.not_found`; `profile.invalid`: names file, line and path
 */
export async function loadProfile(home: Pick<Home, "profilesDir">, id: string): Promise<Profile> {
  if (!PROFILE_ID.test(id)) throw await notFoundError(home, id);
  const path = profilePath(home, id);
  const document = await readProfile(path);
  if (document) return parseProfile(document, { id, source: "user", path });
  const text = BUILTIN_PROFILES.get(id);
  if (text === undefined) throw await notFoundError(home, id);
  const profile = parseProfile(parseToml(text, `built-in profile ${id}`), { id, source: "builtin" });
  const overlay = await readOverlay(home, id);
  if (!overlay) return profile;
  const taken = Object.keys(overlay.rules).find((rule) => Object.hasOwn(profile.rules, rule));
  if (taken === undefined) return { ...profile, overlay };
  throw new SbxError(
    "profile.invalid",
    `${
      overlay.document.placeOf(["profiles", "rules", taken])
    }: the profile "${id}" has a rule "${taken}" of its own`,
    { hint: "give it another name" },
  );
}

/** Reads the document at `path`, `undefined` if it is missing; TOML errors become `profile.invalid`. */
async function readProfile(path: string): Promise<TomlDocument | undefined> {
  try {
    return await readToml(path);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    if (error.code === "toml.not_found") return undefined;
    throw new SbxError("profile.invalid", error.message, { cause: error, hint: error.hint });
  }
}

/** Checks one profile.toml at any path; its folder's name must be its id. */
export async function validateProfile(path: string): Promise<Profile> {
  const document = await readProfile(path);
  if (!document) throw new SbxError("profile.not_found", `${path}: no such file`);
  return parseProfile(document, { id: basename(dirname(resolve(path))), source: "user", path });
}

async function notFoundError(home: Pick<Home, "profilesDir">, id: string): Promise<SbxError> {
  const near = didYouMean(id, await idsOf(home));
  return new SbxError("profile.not_found", `there is no profile ${JSON.stringify(id)}`, {
    hint: near ? `${near} sbx profile list shows all` : "sbx profile list shows the existing ones",
  });
}

/** Ids of all profiles, the user's and the built-in ones, sorted. */
async function idsOf(home: Pick<Home, "profilesDir">): Promise<string[]> {
  return [...new Set([...await userProfileIds(home), ...BUILTIN_PROFILES.keys()])].sort();
}

/** A profile, or the error of a broken one. */
export type ListedProfile =
  | { id: string; source: Profile["source"]; profile: Profile }
  | { id: string; source: Profile["source"]; error: SbxError };

/** Lists all profiles by id, the user's and the built-in ones. A broken profile is listed with its error. */
export async function listProfiles(home: Pick<Home, "profilesDir">): Promise<ListedProfile[]> {
  const users = await userProfileIds(home);
  const ids = await idsOf(home);
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
