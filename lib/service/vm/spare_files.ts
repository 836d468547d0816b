/** Folder of a session that is started ahead. Until it has a VM, a mark sets it apart from a VM's folder. */
import { join } from "node:path";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { sessionPaths, type VmPaths, vmPaths } from "../../session/mod.ts";
import { makeScratch } from "./scratch.ts";
import { SESSION_ID } from "../record/session_scan.ts";

/** Begin of the name of such a folder until it is complete. */
const UNFINISHED = ".spare-";
/** Mark: size of the disk, in `GiB`. */
const MARK = "spare";
/** Whatever the umask: programs of any user in the guest may enter the workspace; the folder above it is closed on the host. */
const WORKSPACE_MODE = 0o755;

/** Makes the files of a machine without a VM: a workspace, a disk and a place for logs. */
export async function makeSpareFiles(home: Home, id: string, scratchGb: number): Promise<void> {
  const work = vmPaths(join(home.sessionsDir, UNFINISHED + id));
  try {
    await Deno.mkdir(work.dir, { mode: 0o700 });
    await Deno.writeTextFile(join(work.dir, MARK), String(scratchGb), { mode: 0o600 });
    await Deno.mkdir(work.logs, { mode: 0o700 });
    await makeWorkspace(work);
    if (scratchGb > 0) await makeScratch(work.scratch, scratchGb);
    await Deno.rename(work.dir, sessionPaths(home, id).dir);
  } catch (error) {
    await Deno.remove(work.dir, { recursive: true }).catch(() => {});
    throw error;
  }
}

/** Size of the disk in a folder that was made ahead, in `GiB`; undefined for a folder that was not. */
export async function spareScratchGb({ dir }: VmPaths): Promise<number | undefined> {
  const text = await Deno.readTextFile(join(dir, MARK)).catch(() => undefined);
  return text === undefined ? undefined : Number(text);
}

/** Makes the folder a VM's. */
export async function unmarkSpare({ dir }: VmPaths): Promise<void> {
  await Deno.remove(join(dir, MARK));
}

/** Removes a folder for which there is no VM. */
export async function removeSpareFiles(home: Home, id: string): Promise<void> {
  const { dir, sockets } = sessionPaths(home, id);
  for (const folder of [sockets, dir]) {
    await Deno.remove(folder, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) log.warn(error);
    });
  }
}

/** Removes spares left by services that have ended. */
export async function removeLeftSpares(home: Home): Promise<void> {
  await Deno.mkdir(home.sessionsDir, { recursive: true, mode: 0o700 });
  for await (const { name } of Deno.readDir(home.sessionsDir)) {
    if (name.startsWith(UNFINISHED)) {
      await Deno.remove(join(home.sessionsDir, name), { recursive: true }).catch((error) => log.warn(error));
    } else if (SESSION_ID.test(name) && await isSpare(sessionPaths(home, name))) {
      await removeSpareFiles(home, name);
    }
  }
}

export async function makeWorkspace({ workspace }: VmPaths): Promise<void> {
  await Deno.mkdir(workspace);
  await Deno.chmod(workspace, WORKSPACE_MODE);
}

/** There is a mark, and no VM yet. */
async function isSpare(paths: VmPaths): Promise<boolean> {
  if (await spareScratchGb(paths) === undefined) return false;
  return await Deno.lstat(paths.record).then(() => false, (error) => error instanceof Deno.errors.NotFound);
}
