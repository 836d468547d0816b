/** New profiles of the user: copied from another one, or of a text. */
import { dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { setKey } from "../../base/toml/mod.ts";
import { loadProfile, profilePath } from "./load.ts";
import { PROFILE_ID } from "./limit/schema.ts";

/**
 * Creates a profile of the user from another profile. Paths are copied unchanged: files relative to the
 * profile's folder must be copied too.
 *
 * @returns path of the new profile.toml
 * @throws {SbxError} `profile.not_found`; `profile.invalid`; `profile.conflict`: the new id exists
 */
export async function copyProfile(
  home: Pick<Home, "profilesDir">,
  id: string,
  newId: string,
): Promise<string> {
  const { document } = await loadProfile(home, id);
  return await saveProfile(home, newId, setKey(document, [], "id", newId).text);
}

/**
 * Saves the text of a new profile of the user. The text is not checked: parse it before.
 *
 * @returns path of its profile.toml
 * @throws {SbxError} `profile.invalid`: for an invalid id; `profile.conflict`: the id exists
 */
export async function saveProfile(
  home: Pick<Home, "profilesDir">,
  id: string,
  text: string,
): Promise<string> {
  if (!PROFILE_ID.test(id)) {
    throw new SbxError("profile.invalid", `invalid profile id ${JSON.stringify(id)}`, {
      hint: "use 1 to 64 of a-z 0-9 _ -",
    });
  }
  const path = profilePath(home, id);
  if (await Deno.lstat(dirname(path)).then(() => true, () => false)) {
    throw new SbxError("profile.conflict", `${dirname(path)} already exists`, { hint: "choose another id" });
  }
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, text);
  return path;
}
