import { basename, join, resolve } from "node:path";
import { SbxError } from "../../lib/error/mod.ts";
import { type Copied, joined, type Remote, UPLOAD_MAX } from "./cp_remote.ts";
import { note } from "./output.ts";

/** Copies a local file or folder into the workspace. Symbolic links inside a folder are left out, and named. */
export async function upload(remote: Remote, from: string, to: string): Promise<Copied[]> {
  const info = await Deno.stat(from).catch((cause) => {
    throw new SbxError("file.not_found", `"${from}" cannot be read`, { cause, hint: "is the path right?" });
  });
  const into = to === "" || to.endsWith("/") || await remote.isFolder(to);
  const target = into ? joined(to, basename(resolve(from))) : to;
  if (!info.isDirectory) return [await send(remote, from, target, info)];
  const copied: Copied[] = [];
  await walk(remote, from, target, copied);
  return copied;
}

async function walk(remote: Remote, from: string, to: string, copied: Copied[]): Promise<void> {
  const entries = await Array.fromAsync(Deno.readDir(from));
  for (const { name } of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    const path = join(from, name);
    const info = await Deno.lstat(path);
    if (info.isDirectory) await walk(remote, path, joined(to, name), copied);
    else if (info.isFile) copied.push(await send(remote, path, joined(to, name), info));
    else note(`sbx: left out ${path}: neither file nor folder`);
  }
}

async function send(
  remote: Remote,
  from: string,
  to: string,
  { size, isFile }: Deno.FileInfo,
): Promise<Copied> {
  if (!isFile) throw new SbxError("file.invalid", `"${from}" is neither file nor folder`);
  if (size > UPLOAD_MAX) {
    throw new SbxError(
      "request.too_large",
      `"${from}" has ${size} bytes, and an upload at most ${UPLOAD_MAX}`,
      {
        hint: await remote.folderHint(),
      },
    );
  }
  await remote.write(to, await Deno.readFile(from));
  return { from, to, size };
}
