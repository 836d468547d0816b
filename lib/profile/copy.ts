import { dirname } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { setKey } from "../toml/mod.ts";
import { loadProfile, profilePath } from "./load.ts";
import { PROFILE_ID } from "./schema.ts";

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
  if (!PROFILE_ID.test(newId)) {
    throw new SbxError("profile.invalid", `invalid profile id ${JSON.stringify(newId)}`, {
      hint: "use 1 to 64 of a-z 0-9 _ -",
    });
  }
  const { document } = await loadProfile(home, id);
  const path = profilePath(home, newId);
  if (await Deno.lstat(dirname(path)).then(() => true, () => false)) {
    throw new SbxError("profile.conflict", `${dirname(path)} already exists`, { hint: "choose another id" });
  }
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, setKey(document, [], "id", newId).text);
  return path;
}
