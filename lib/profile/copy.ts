import { dirname } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { setKey } from "../toml/mod.ts";
import { loadProfile, profilePath } from "./load.ts";
import { PROFILE_ID } from "./schema.ts";

/**
 * Writes a new profile of the user's own, made of another. Paths in it stay as they are: those that begin in its
 * folder need their files copied too.
 *
 * @returns the path of the new profile.toml
 * @throws {SbxError} `profile.not_found`, `profile.invalid`, `profile.conflict` when it exists
 */
export async function copyProfile(
  home: Pick<Home, "profilesDir">,
  id: string,
  newId: string,
): Promise<string> {
  if (!PROFILE_ID.test(newId)) {
    throw new SbxError("profile.invalid", `${JSON.stringify(newId)} cannot be the id of a profile`, {
      hint: "an id is 1 to 64 of a-z 0-9 _ -",
    });
  }
  const { document } = await loadProfile(home, id);
  const path = profilePath(home, newId);
  if (await Deno.lstat(dirname(path)).then(() => true, () => false)) {
    throw new SbxError("profile.conflict", `${dirname(path)} exists already`, { hint: "choose another id" });
  }
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, setKey(document, [], "id", newId).text);
  return path;
}
