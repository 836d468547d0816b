import { basename, join, resolve } from "node:path";
import { readNames } from "../../ffi/libc/directory.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { decodeUtf8, escapeBytes } from "../../lib/base/text/mod.ts";
import {
  type CopiedFile,
  type CopyResult,
  joinPath,
  NOT_UTF8,
  type Remote,
  UPLOAD_MAX,
} from "./cp_remote.ts";
import { note } from "../../lib/base/print/mod.ts";

/** Copied mode bits: permissions, without set-user-id, set-group-id and sticky. */
const PERMISSIONS = 0o777;
const DEFAULT_MODE = 0o644;

interface PlannedFile extends CopiedFile {
  mode: number;
}

/** Steps of an upload, planned before the first request. */
interface Plan {
  files: PlannedFile[];
  /** workspace paths of folders without copied files; other folders are created with their files */
  folders: string[];
  /** files over {@linkcode UPLOAD_MAX} */
  large: PlannedFile[];
  skipped: string[];
}

/**
 * Copies a local file or folder into the workspace, including empty folders. Symbolic links inside a folder and files
 * over {@linkcode UPLOAD_MAX} are skipped and reported.
 */
export async function upload(remote: Remote, from: string, to: string): Promise<CopyResult> {
  const info = await Deno.stat(from).catch((cause) => {
    throw new SbxError("file.not_found", `"${from}" cannot be read`, { cause, hint: "check the path" });
  });
  if (!info.isDirectory && !info.isFile) {
    throw new SbxError("file.invalid", `"${from}" is neither a file nor a folder`, {
      hint: "give a file or a folder",
    });
  }
  const isInside = to === "" || to.endsWith("/") || await remote.isFolder(to);
  const target = isInside ? joinPath(to, basename(resolve(from))) : to;
  const plan: Plan = { files: [], folders: [], large: [], skipped: [] };
  if (info.isFile) planFile(plan, from, target, info);
  else await planFolder(plan, from, target);
  const copied: CopiedFile[] = [];
  for (const folder of plan.folders) await remote.createFolder(folder);
  for (const { mode, ...file } of plan.files) {
    await remote.write(file.to, await Deno.readFile(file.from), mode);
    copied.push(file);
  }
  await reportLarge(remote, plan);
  return { copied, skipped: plan.skipped };
}

async function planFolder(plan: Plan, from: string, to: string): Promise<void> {
  const before = plan.files.length + plan.folders.length;
  for (const name of await namesOf(plan, from)) {
    const path = join(from, name);
    const info = await Deno.lstat(path);
    if (info.isDirectory) await planFolder(plan, path, joinPath(to, name));
    else if (info.isFile) planFile(plan, path, joinPath(to, name), info);
    else {
      note(`sbx: skipped ${path}: a ${info.isSymlink ? "symbolic link" : "special file"}`);
      plan.skipped.push(path);
    }
  }
  if (plan.files.length + plan.folders.length === before) plan.folders.push(to);
}

/** Sorted names in a folder; those that are not UTF-8 are skipped and reported. */
async function namesOf(plan: Plan, folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const bytes of readNames(folder)) {
    const name = decodeUtf8(bytes);
    if (name !== undefined) names.push(name);
    else {
      const path = join(folder, escapeBytes(bytes));
      note(`sbx: skipped ${path}: ${NOT_UTF8}`);
      plan.skipped.push(path);
    }
  }
  return names.sort();
}

function planFile(plan: Plan, from: string, to: string, { size, mode }: Deno.FileInfo): void {
  const file = { from, to, size, mode: (mode ?? DEFAULT_MODE) & PERMISSIONS };
  (size > UPLOAD_MAX ? plan.large : plan.files).push(file);
}

/** Reports each file over the limit, with a command that copies it into the workspace folder directly. */
async function reportLarge(remote: Remote, { large, skipped }: Plan): Promise<void> {
  if (large.length === 0) return;
  const limit = `${UPLOAD_MAX / 1024 / 1024} MiB`;
  for (const { from, size } of large) {
    note(`sbx: skipped ${from}: ${size} bytes, over the upload limit of ${limit}`);
    skipped.push(from);
  }
  const workspace = await remote.folder();
  for (const { from, to } of large) {
    note(`  copy it directly: cp ${quote(from)} ${quote(join(workspace, stripWorkspace(to)))}`);
  }
}

/** Returns a path relative to the workspace; the API also accepts paths with `/workspace`. */
function stripWorkspace(path: string): string {
  return path.replace(/^\/workspace(?=\/|$)/, "");
}

/** Quotes a word for a shell. */
function quote(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
