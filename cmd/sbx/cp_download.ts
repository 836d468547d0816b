import { basename, dirname, join } from "node:path";
import { SbxError } from "../../lib/base/error/mod.ts";
import { type Copied, type CopyResult, joined, type Remote } from "./cp_remote.ts";
import { note } from "./output.ts";

/**
 * Copies a file or folder out of the workspace. What the guest has put there is not trusted: links are left out,
 * names with `..` are refused, and nothing is written through a link that lies below the target.
 */
export async function download(remote: Remote, from: string, to: string): Promise<CopyResult> {
  const source = fromWorkspace(from);
  const entries = await remote.list(source);
  const name = basename(source);
  const into = to.endsWith("/") || await isFolder(to);
  if (entries === undefined) {
    return { copied: [await receive(remote, source, into ? join(to, name) : to)], leftOut: [] };
  }
  const root = into && name !== "" ? join(to, name) : to;
  const copied: Copied[] = [];
  const leftOut: string[] = [];
  await makeFolder(root, false);
  for (const { path, type, mode } of entries) {
    const inside = relative(path, source);
    if (type === "directory") await makeFolders(root, inside);
    else if (type === "file") {
      await makeFolders(root, dirname(inside));
      copied.push(await receive(remote, path, join(root, inside), parseInt(mode, 8) & 0o777));
    } else {
      note(`sbx: left out ${path}: a ${type === "symlink" ? "link" : "special file"}`);
      leftOut.push(path);
    }
  }
  return { copied, leftOut };
}

/** A path as the API's listings write it: below the workspace, without what means nothing. What leads out of it the API refuses. */
function fromWorkspace(path: string): string {
  const below = /^\/workspace(?:\/|$)/.test(path) ? path.slice("/workspace/".length) : path;
  const parts = below.split("/").filter((part, at) => part !== "." && (part !== "" || at === 0));
  return parts.join("/");
}

/** `path` as seen from the folder that is copied. */
function relative(path: string, source: string): string {
  const inside = source === "" ? path : path.startsWith(`${source}/`) ? path.slice(source.length + 1) : "";
  const parts = inside.split("/");
  if (
    inside !== "" &&
    parts.every((part) => part !== "" && part !== "." && part !== ".." && !part.includes("\0"))
  ) {
    return inside;
  }
  throw new SbxError(
    "path.outside_workspace",
    `the VM's workspace lists a path that leads out of it: "${path}"`,
    {
      hint: "sbx info shows the folder on this machine: look at what is in it",
    },
  );
}

async function makeFolders(root: string, inside: string): Promise<void> {
  const parts = inside.split("/").filter((part) => part !== "" && part !== ".");
  for (let count = 1; count <= parts.length; count++) {
    await makeFolder(join(root, ...parts.slice(0, count)), true);
  }
}

/** @param strict refuse a link to a folder: below the target it would lead out of it */
async function makeFolder(path: string, strict: boolean): Promise<void> {
  const info = await (strict ? Deno.lstat(path) : Deno.stat(path)).catch(() => undefined);
  if (info?.isDirectory) return;
  if (info !== undefined) {
    throw new SbxError("file.conflict", `"${path}" is in the way: a folder belongs there`, {
      hint: "move it, or copy to another place",
    });
  }
  await Deno.mkdir(path).catch((cause) => {
    throw new SbxError("file.invalid", `"${path}" cannot be made`, {
      cause,
      hint: "does the folder above it exist?",
    });
  });
}

/** Writes beside the target and renames, so that a link in its place is replaced and not followed. */
async function receive(remote: Remote, from: string, to: string, mode?: number): Promise<Copied> {
  if (await isFolder(to)) throw new SbxError("file.conflict", `"${to}" is a folder, and "${from}" a file`);
  const body = await remote.read(from);
  const temporary = join(dirname(to), `.sbx-${crypto.randomUUID()}.part`);
  let size = 0;
  try {
    const file = await Deno.open(temporary, { write: true, createNew: true });
    try {
      for await (const chunk of body) {
        for (let at = 0; at < chunk.length;) at += await file.write(chunk.subarray(at));
        size += chunk.length;
      }
    } finally {
      file.close();
    }
    if (mode !== undefined) await Deno.chmod(temporary, mode);
    await Deno.rename(temporary, to);
  } catch (cause) {
    await Deno.remove(temporary).catch(() => {});
    if (!(cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.PermissionDenied)) {
      throw cause;
    }
    throw new SbxError("file.invalid", `"${to}" cannot be written`, {
      cause,
      hint: "does its folder exist?",
    });
  }
  return { from: joined(from), to, size };
}

async function isFolder(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isDirectory, () => false);
}
