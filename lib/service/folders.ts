/** Folders of this machine from which a person chooses one for an agent. */
import { dirname, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import type { FolderList } from "../client/api/mod.ts";

/** Folders in an answer, and entries of a folder that are looked at (docs/design/contracts/14-limits.md). */
const FOLDERS_MAX = 50, ENTRIES_MAX = 10_000;

/** Folders whose path begins with `path`; hidden ones only where its last name begins with a dot. */
export async function listFolders(path: string | undefined): Promise<FolderList> {
  const home = Deno.env.get("HOME") ?? "/";
  const wanted = path === undefined || path === "" ? `${home}/` : path.replace(/^~(?=\/|$)/, home);
  if (!wanted.startsWith("/")) return { home, folders: [] };
  const parent = wanted.endsWith("/") ? wanted : dirname(wanted);
  const start = wanted.endsWith("/") ? "" : wanted.slice(parent.length).replace(/^\//, "");
  const names: string[] = [];
  let seen = 0;
  try {
    for await (const entry of Deno.readDir(parent)) {
      if (++seen > ENTRIES_MAX) break;
      const isHidden = entry.name.startsWith(".") && !start.startsWith(".");
      if (entry.isDirectory && !isHidden && entry.name.startsWith(start)) names.push(entry.name);
    }
  } catch {
    // A path that is still being typed.
    return { home, folders: [] };
  }
  const folders = names.sort().slice(0, FOLDERS_MAX).map(async (name) => {
    const folder = join(parent, name);
    const git = await Deno.lstat(join(folder, ".git")).catch(() => undefined);
    return { path: folder, is_repository: git !== undefined };
  });
  return { home, folders: await Promise.all(folders) };
}

/** @throws {SbxError} `folder.not_found` (404) */
export async function requireFolder(dir: string): Promise<void> {
  const info = await Deno.stat(dir).catch(() => undefined);
  if (info?.isDirectory) return;
  throw new SbxError("folder.not_found", `there is no folder ${dir} on this machine`, {
    hint: "name an existing folder by its whole path",
  });
}
