/** Images that profiles boot, for lists. */
import { currentArch } from "../../base/arch/mod.ts";
import { asSbxError, ifFound } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { bootFiles } from "../../release/asset/mod.ts";
import { bootAssets } from "./asset.ts";
import { type ListedProfile, listProfiles } from "./load.ts";

/** The image of one profile. */
export interface ListedImage {
  profile_id: string;
  /** name of the profile */
  name?: string;
  /** profile whose image it is, and its version */
  image?: string;
  version?: string;
  /** release of Debian that it is made from */
  suite?: string;
  /** packages that were added to it */
  packages?: string[];
  /** of its root file system */
  bytes?: number;
  /** of all files that a VM boots from */
  total_bytes?: number;
  /** ISO 8601: when its files were made or installed here */
  installed_at?: string;
  /** true if a list of its packages is installed with it */
  obom?: boolean;
  /** why it has no image, with the remedy */
  problem?: string;
}

/** The image of each profile, by its id. */
export async function listImages(home: Home): Promise<ListedImage[]> {
  return await Promise.all((await listProfiles(home)).map((listed) => imageOf(home, listed)));
}

async function imageOf(home: Home, listed: ListedProfile): Promise<ListedImage> {
  const profile_id = listed.id;
  if ("error" in listed) return { profile_id, problem: listed.error.message };
  const { name, assets: pins } = listed.profile;
  try {
    const assets = await bootAssets(home, listed.profile, currentArch());
    const { image, version, rootfs, obom } = assets;
    const [installed, list] = await Promise.all(
      [rootfs.path, obom?.path].map((path) => path && ifFound(Deno.stat(path))),
    );
    const { suite, apt = [], npm = [], added = [] } = image?.packages ?? {};
    return {
      profile_id,
      name,
      image: image?.profile ?? (pins ? "pinned" : "any"),
      version,
      suite,
      packages: [...apt, ...npm, ...added],
      bytes: rootfs.size,
      total_bytes: bootFiles(assets).reduce((sum, { size }) => sum + size, 0),
      ...installed && installed.mtime && { installed_at: installed.mtime.toISOString() },
      obom: list !== undefined && list !== "",
    };
  } catch (cause) {
    const { message, hint } = asSbxError(cause, "looking for an image");
    return { profile_id, name, problem: [message, hint].filter(Boolean).join("; ") };
  }
}
