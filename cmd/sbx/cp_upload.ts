import { basename, join, resolve } from "node:path";
import { SbxError } from "../../lib/error/mod.ts";
import { type Copied, joined, type Remote, UPLOAD_MAX } from "./cp_remote.ts";
import { note } from "./output.ts";

/** Permission bits: set-user-id and its like are not copied. */
const PERMISSIONS = 0o777;
const DEFAULT_MODE = 0o644;

/** What was copied, and the paths of what was not. */
export interface Uploaded {
  copied: Copied[];
  leftOut: string[];
}

interface Planned extends Copied {
  mode: number;
}

/**
 * Copies a local file or folder into the workspace. Symbolic links inside a folder are left out, and named. Nothing is
 * sent unless all files are small enough.
 */
export async function upload(remote: Remote, from: string, to: string): Promise<Uploaded> {
  const info = await Deno.stat(from).catch((cause) => {
    throw new SbxError("file.not_found", `"${from}" cannot be read`, { cause, hint: "is the path right?" });
  });
  if (!info.isDirectory && !info.isFile) {
    throw new SbxError("file.invalid", `"${from}" is neither file nor folder`);
  }
  const into = to === "" || to.endsWith("/") || await remote.isFolder(to);
  const target = into ? joined(to, basename(resolve(from))) : to;
  const files: Planned[] = [];
  const leftOut: string[] = [];
  if (info.isFile) files.push(planned(from, target, info));
  else await walk(from, target, files, leftOut);
  for (const file of files) await checkSize(remote, file);
  const copied: Copied[] = [];
  for (const { mode, ...file } of files) {
    await remote.write(file.to, await Deno.readFile(file.from), mode);
    copied.push(file);
  }
  return { copied, leftOut };
}

async function walk(from: string, to: string, files: Planned[], leftOut: string[]): Promise<void> {
  const entries = await Array.fromAsync(Deno.readDir(from));
  for (const { name } of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    const path = join(from, name);
    const info = await Deno.lstat(path);
    if (info.isDirectory) await walk(path, joined(to, name), files, leftOut);
    else if (info.isFile) files.push(planned(path, joined(to, name), info));
    else {
      note(`sbx: left out ${path}: ${info.isSymlink ? "a symbolic link" : "neither file nor folder"}`);
      leftOut.push(path);
    }
  }
}

function planned(from: string, to: string, { size, mode }: Deno.FileInfo): Planned {
  return { from, to, size, mode: (mode ?? DEFAULT_MODE) & PERMISSIONS };
}

async function checkSize(remote: Remote, { from, size }: Planned): Promise<void> {
  if (size <= UPLOAD_MAX) return;
  throw new SbxError(
    "request.too_large",
    `"${from}" has ${size} bytes, and an upload at most ${UPLOAD_MAX}`,
    { hint: await remote.folderHint() },
  );
}
