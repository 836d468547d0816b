import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";

/** A file that a package installs; its folders come with it. */
export interface PackageFile {
  /** without a slash at the start */
  path: string;
  content: { text: string } | { bytes: Uint8Array } | { copyOf: string } | { linkTo: string };
  /** permission bits, default 0o644 */
  mode?: number;
}

/**
 * Writes files into a new folder, with modes that no umask changes, and the same time for all.
 *
 * @param seconds the time, since 1970
 * @throws {SbxError} `package.file_missing`
 */
export async function writeTree(root: string, files: readonly PackageFile[], seconds: number): Promise<void> {
  await Deno.mkdir(root, { recursive: true });
  for (const { path, content, mode = 0o644 } of files) {
    const target = join(root, path);
    await Deno.mkdir(dirname(target), { recursive: true });
    if ("linkTo" in content) {
      await Deno.symlink(content.linkTo, target);
      continue;
    }
    if ("text" in content) await Deno.writeTextFile(target, content.text);
    else if ("bytes" in content) await Deno.writeFile(target, content.bytes);
    else await copy(content.copyOf, target);
    await Deno.chmod(target, mode);
  }
  await settle(root, seconds);
}

async function copy(from: string, to: string): Promise<void> {
  try {
    await Deno.copyFile(from, to);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError("package.file_missing", `the package needs ${from}, which is not there`, {
      cause,
      hint: "make build makes the program, make deb the rest",
    });
  }
}

/** Sets modes of folders and times, from the leaves up: writing into a folder changes its time. */
async function settle(path: string, seconds: number): Promise<void> {
  const { isDirectory, isSymlink } = await Deno.lstat(path);
  if (isSymlink) return; // its time is not stored: dpkg-deb caps it
  if (isDirectory) {
    for await (const { name } of Deno.readDir(path)) await settle(join(path, name), seconds);
    await Deno.chmod(path, 0o755);
  }
  await Deno.utime(path, seconds, seconds);
}
