/**
 * A person's rules for a built-in profile, whose text is sbx's own: "always" as the answer to an ask
 * (docs/design/contracts/04-profiles.md §4).
 */
import { dirname, join } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { accessProblem } from "../../base/home/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { checkToml, parseToml, readToml, type TomlDocument } from "../../base/toml/mod.ts";
import { OverlayFile, type ProfileFile } from "./schema.ts";

/** Rules of an overlay. */
export interface ProfileOverlay {
  path: string;
  document: TomlDocument;
  /** `[profiles.rules.<id>]` by id */
  rules: ProfileFile["profiles"]["rules"];
}

/** Path of the overlay of a built-in profile, existing or not. */
export function overlayPath({ profilesDir }: Pick<Home, "profilesDir">, id: string): string {
  return join(dirname(profilesDir), "rules", `${id}.toml`);
}

/**
 * Reads the overlay of a built-in profile.
 *
 * @returns `undefined` for none
 * @throws {SbxError} `profile.invalid`: it cannot be read, or another user may write it
 */
export async function readOverlay(
  home: Pick<Home, "profilesDir">,
  id: string,
): Promise<ProfileOverlay | undefined> {
  const path = overlayPath(home, id);
  const found = await ifFound(Deno.lstat(path)).catch((cause) => {
    throw new SbxError("profile.invalid", `${path} cannot be read`, { cause });
  });
  if (!found) return undefined;
  const refused = accessProblem(path, found, { keep: "unchanged" });
  if (refused) {
    throw new SbxError("profile.invalid", `${path} ${refused.problem}`, {
      hint: found.isFile ? `${refused.hint}, or remove it` : "remove it",
    });
  }
  return parseOverlay(await readToml(path), path);
}

/** Checks the text of an overlay. @throws {SbxError} `profile.invalid` */
export function parseOverlay(document: TomlDocument, path: string): ProfileOverlay {
  const { profiles } = checkToml(document, OverlayFile, "profile.invalid");
  return { path, document, rules: profiles.rules };
}

/** The document of an overlay that has no rule yet. */
export function emptyOverlay(path: string): ProfileOverlay {
  return parseOverlay(parseToml("", path), path);
}
