import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count, decodeUtf8, escapeBytes } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { download } from "./cp_download.ts";
import {
  type CopiedFile,
  type CopyResult,
  joinPath,
  NOT_UTF8,
  Remote,
  reportClash,
  requireRoom,
} from "./cp_remote.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { usageError } from "../output.ts";
import { basename, join, resolve } from "node:path";
import { readNames } from "../../../ffi/host/files.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

export const command: Command = {
  name: "cp",
  usage: "SRC DST [--json]",
  summary: "copy files and folders to or from a VM; one side is NAME:path",
  notes: [
    "A path is below the workspace, or absolute: any path of the VM, while it runs. Rules on import and export decide on each file, and the record has its size and hash.",
    "Copies files of any size, and links. Existing files are replaced one by one, with a note. Links that lead out of the copied folder are skipped; a repository's configuration and hooks stay behind (sbx pull takes its work). The exit code is 1 if a file was skipped.",
  ],
  options: [JSON_OPTION],
  words: { min: 2, max: 2 },
  completes: [{ either: ["vm paths", "files"] }],
  examples: [
    "sbx cp notes.txt demo:",
    "sbx cp src demo:project/src",
    "sbx cp demo:result.json .",
    "sbx cp demo:/root/project/dist .",
  ],
  async run(args) {
    const [from, to] = args.words.map(parseSide);
    if ((from.vm === undefined) === (to.vm === undefined)) {
      throw usageError(
        command,
        "exactly one of SRC and DST must be in a VM",
        "write NAME:path for the side in the VM; a local path with a colon begins with ./",
      );
    }
    const client = await connect();
    const remote = new Remote(client, segment((from.vm ?? to.vm)!));
    const { copied, skipped, behind = [] } = from.vm === undefined
      ? await upload(remote, from.path, to.path)
      : await download(remote, from.path, to.path);
    if (args.has("json")) await printJson({ copied, left_out: skipped, left_behind: behind });
    else {
      const total = `copied ${count(copied.length, "file")}`;
      await print(skipped.length === 0 ? total : `${total}, skipped ${skipped.length}`);
    }
    return skipped.length === 0 ? 0 : 1;
  },
};

/** Parses one side of a copy. A path with a slash before its first colon is local. */
function parseSide(text: string): { vm?: string; path: string } {
  const [, vm, path] = /^([A-Za-z0-9][A-Za-z0-9_-]*):([^]*)$/.exec(text) ?? [];
  return vm === undefined ? { path: text } : { vm, path };
}

/** Copied mode bits: permissions, without set-user-id, set-group-id and sticky. */
const PERMISSIONS = 0o777;
const DEFAULT_MODE = 0o644;
/** `bytes` of a copy from which on the disk's free space is checked first. */
const LARGE = 64 * 1024 * 1024;

interface PlannedFile extends CopiedFile {
  mode: number;
}

interface PlannedLink {
  from: string;
  to: string;
  target: string;
}

/** Steps of an upload, planned before the first request. */
interface Plan {
  files: PlannedFile[];
  links: PlannedLink[];
  /** workspace paths of folders without copied files; other folders are created with their files */
  folders: string[];
  skipped: string[];
}

/**
 * Copies a local file or folder into the workspace, including links and empty folders. Special files in a
 * folder are skipped and reported.
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
  const isInside = to === "" || to.endsWith("/") || await remote.kindOf(to) === "folder";
  const target = isInside ? joinPath(to, basename(resolve(from))) : to;
  reportClash(await remote.kindOf(target), target, info.isDirectory);
  const plan: Plan = { files: [], links: [], folders: [], skipped: [] };
  if (info.isFile) planFile(plan, from, target, info);
  else await planFolder(plan, from, target);
  const size = plan.files.reduce((sum, file) => sum + file.size, 0);
  const isShared = !target.startsWith("/") || /^\/workspace(\/|$)/.test(target);
  if (size >= LARGE && isShared) await requireRoom(await remote.folder(), from, size);
  const copied: CopiedFile[] = [];
  for (const folder of plan.folders) await remote.createFolder(folder);
  for (const { mode, ...file } of plan.files) {
    copied.push({ ...file, size: await remote.write(file.to, await contentOf(file.from), mode) });
  }
  for (const { from, to, target } of plan.links) {
    await remote.writeLink(to, target);
    copied.push({ from, to, size: 0 });
  }
  return { copied, skipped: plan.skipped };
}

async function contentOf(path: string): Promise<ReadableStream<Uint8Array>> {
  const file = await Deno.open(path).catch((cause) => {
    throw new SbxError("file.not_found", `"${path}" cannot be read`, {
      cause,
      hint: "check its permissions",
    });
  });
  return file.readable;
}

async function planFolder(plan: Plan, from: string, to: string): Promise<void> {
  const steps = () => plan.files.length + plan.links.length + plan.folders.length;
  const before = steps();
  for (const name of await namesOf(plan, from)) {
    const path = join(from, name);
    const info = await Deno.lstat(path);
    if (info.isDirectory) await planFolder(plan, path, joinPath(to, name));
    else if (info.isFile) planFile(plan, path, joinPath(to, name), info);
    else if (info.isSymlink) {
      plan.links.push({ from: path, to: joinPath(to, name), target: await Deno.readLink(path) });
    } else {
      note(`sbx: skipped ${plain(path)}: a special file`);
      plan.skipped.push(path);
    }
  }
  if (steps() === before) plan.folders.push(to);
}

/** Sorted names in a folder; names that are not UTF-8 are skipped and reported. */
async function namesOf(plan: Plan, folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const bytes of readNames(folder)) {
    const name = decodeUtf8(bytes);
    if (name !== undefined) names.push(name);
    else {
      const path = join(folder, escapeBytes(bytes));
      note(`sbx: skipped ${plain(path)}: ${NOT_UTF8}`);
      plan.skipped.push(path);
    }
  }
  return names.sort();
}

function planFile(plan: Plan, from: string, to: string, { size, mode }: Deno.FileInfo): void {
  plan.files.push({ from, to, size, mode: (mode ?? DEFAULT_MODE) & PERMISSIONS });
}
