import { basename, join, resolve } from "node:path";
import { SbxError } from "../../lib/base/error/mod.ts";
import { type Copied, type CopyResult, joined, type Remote, UPLOAD_MAX } from "./cp_remote.ts";
import { note } from "./output.ts";

/** Permission bits: set-user-id and its like are not copied. */
const PERMISSIONS = 0o777;
const DEFAULT_MODE = 0o644;

interface Planned extends Copied {
  mode: number;
}

/** What is to be done, found out before anything is sent. */
interface Plan {
  files: Planned[];
  /** paths in the workspace of folders with nothing in them that is copied: the others come with their files */
  folders: string[];
  /** larger than an upload may be */
  large: Planned[];
  leftOut: string[];
}

/**
 * Copies a local file or folder into the workspace. Symbolic links inside a folder and files that are too large are
 * left out, and named; folders are made also when they are empty.
 */
export async function upload(remote: Remote, from: string, to: string): Promise<CopyResult> {
  const info = await Deno.stat(from).catch((cause) => {
    throw new SbxError("file.not_found", `"${from}" cannot be read`, { cause, hint: "is the path right?" });
  });
  if (!info.isDirectory && !info.isFile) {
    throw new SbxError("file.invalid", `"${from}" is neither file nor folder`);
  }
  const into = to === "" || to.endsWith("/") || await remote.isFolder(to);
  const target = into ? joined(to, basename(resolve(from))) : to;
  const plan: Plan = { files: [], folders: [], large: [], leftOut: [] };
  if (info.isFile) planFile(plan, from, target, info);
  else await walk(plan, from, target);
  const copied: Copied[] = [];
  for (const folder of plan.folders) await remote.makeFolder(folder);
  for (const { mode, ...file } of plan.files) {
    await remote.write(file.to, await Deno.readFile(file.from), mode);
    copied.push(file);
  }
  await tellLarge(remote, plan);
  return { copied, leftOut: plan.leftOut };
}

async function walk(plan: Plan, from: string, to: string): Promise<void> {
  const entries = await Array.fromAsync(Deno.readDir(from));
  const before = plan.files.length + plan.folders.length;
  for (const { name } of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    const path = join(from, name);
    const info = await Deno.lstat(path);
    if (info.isDirectory) await walk(plan, path, joined(to, name));
    else if (info.isFile) planFile(plan, path, joined(to, name), info);
    else {
      note(`sbx: left out ${path}: ${info.isSymlink ? "a symbolic link" : "neither file nor folder"}`);
      plan.leftOut.push(path);
    }
  }
  if (plan.files.length + plan.folders.length === before) plan.folders.push(to);
}

function planFile(plan: Plan, from: string, to: string, { size, mode }: Deno.FileInfo): void {
  const file = { from, to, size, mode: (mode ?? DEFAULT_MODE) & PERMISSIONS };
  (size > UPLOAD_MAX ? plan.large : plan.files).push(file);
}

/** Names every file that is too large, and where to put it instead. */
async function tellLarge(remote: Remote, { large, leftOut }: Plan): Promise<void> {
  if (large.length === 0) return;
  const limit = `${UPLOAD_MAX / 1024 / 1024} MiB`;
  for (const { from, size } of large) {
    note(`sbx: left out ${from}: it has ${size} bytes, and sbx cp copies in files of up to ${limit}`);
    leftOut.push(from);
  }
  const workspace = await remote.folder();
  for (const { from, to } of large) {
    note(`  put it there yourself: cp ${quoted(from)} ${quoted(join(workspace, inWorkspace(to)))}`);
  }
}

/** A path as the API takes it: what is below /workspace may be written with it. */
function inWorkspace(path: string): string {
  return path.replace(/^\/workspace(?=\/|$)/, "");
}

/** As a shell takes it. */
function quoted(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
