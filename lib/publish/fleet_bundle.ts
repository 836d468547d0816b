import { writeAtomic } from "../base/home/mod.ts";
import { type BundleEntry, digestBytes } from "../release/mod.ts";
import { FILE_MODE, UNSIGNED, type Workspace } from "./workspace.ts";

const NAME = "bundle.json";

/** Puts a bundle into the folder of a release. @param content from `packBundle` */
export async function describeBundle(
  workspace: Workspace,
  folder: string,
  content: Uint8Array,
): Promise<BundleEntry> {
  const url = `${folder}/${NAME}`;
  await writeAtomic(workspace.path(url), content, FILE_MODE);
  const { sha256, blake3, bytes } = digestBytes(content);
  return { name: NAME, url, sha256, blake3, hmac: UNSIGNED, bytes };
}
