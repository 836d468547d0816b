/** Files of VMs on the host: made for a new VM or ahead of one, and changed under a running guest. */
import { dirname, join } from "node:path";
import { copySparse } from "../../base/copy/mod.ts";
import { prepareShare } from "../../machine/live/mod.ts";
import {
  type Contract,
  sessionPaths,
  type VmPaths,
  vmPaths,
  writeContract,
  writeRecord,
} from "../../session/mod.ts";
import { type VmRequest, writeRequest } from "./boot.ts";
import { CACHED_MS, type Change, toText } from "../../machine/snapshot/mod.ts";
import { requireFree, type Vm } from "./vm.ts";
import { guestPath, relativePath } from "../run/workspace.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { SESSION_ID } from "../record/sessions.ts";
import { ifFound, ignore } from "../../base/error/mod.ts";
import { enlarge } from "../../machine/vm/mod.ts";
import { makeScratch } from "./disk.ts";

/**
 * Makes the folders, the disk and the files of a new VM, unless they were made ahead; workspace
 * and disk of a source are copied.
 */
export async function makeVmFiles(
  vm: Vm,
  request: VmRequest,
  contract: Contract,
  source: Vm | undefined,
): Promise<void> {
  const { paths, record } = vm;
  if (source) requireFree(source);
  for (const dir of [paths.dir, paths.logs, paths.snapshots, dirname(paths.ledger)]) {
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  }
  const ahead = await spareScratchGb(paths);
  if (source) await copySparse(source.paths.workspace, paths.workspace);
  else if (ahead === undefined) await makeWorkspace(paths);
  if (record.live) await prepareShare(record.live, paths);
  if (record.scratch_gb > 0 && record.scratch_gb !== ahead) {
    await ifFound(Deno.remove(paths.scratch));
    if (source && source.record.scratch_gb > 0) {
      await copySparse(source.paths.scratch, paths.scratch);
      await enlarge(paths.scratch, record.scratch_gb);
    } else await makeScratch(paths.scratch, record.scratch_gb);
  }
  await Promise.all([
    writeRequest(paths, request),
    writeRecord(paths, record),
    writeContract(paths, contract),
  ]);
  if (ahead !== undefined) await unmarkSpare(paths);
}

/**
 * Waits until a running guest sees a file as it was written: a program started
 * next must not read the old one.
 */
export async function awaitFile(vm: Vm, path: string, size: number): Promise<void> {
  if (vm.state.state !== "Running") return;
  await vm.process.call({ t: "AwaitFile", path: guestPath(relativePath(path)), size }).catch(
    ignore("the file is written; a guest that does not answer sees it later"),
  );
}

/** Files that the guest is asked about after a restore; the others appear with them. */
const AWAITED_FILES = 16;

/** Waits until a running guest sees the changes that the host made to its workspace. */
export async function awaitFiles(vm: Vm, changes: Change[]): Promise<void> {
  if (vm.state.state !== "Running" || changes.length === 0) return;
  const files = changes.filter(({ after }) => after?.type === "file").slice(-AWAITED_FILES);
  await Promise.all([
    new Promise((resolve) => setTimeout(resolve, CACHED_MS)),
    ...files.map(({ path, after }) => awaitFile(vm, toText(path), after!.size)),
  ]);
}

/** Begin of the name of the folder of a session that is started ahead, until it is complete. */
const UNFINISHED = ".spare-";
/** Mark in a folder that has no VM yet: size of the disk, in `GiB`. */
const MARK = "spare";
/**
 * Whatever the umask: programs of any user in the guest may enter the workspace; the folder
 * above it is closed on the host.
 */
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
    await Deno.remove(work.dir, { recursive: true }).catch(ignore("removed by the next service"));
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

async function makeWorkspace({ workspace }: VmPaths): Promise<void> {
  await Deno.mkdir(workspace);
  await Deno.chmod(workspace, WORKSPACE_MODE);
}

/** There is a mark, and no VM yet. */
async function isSpare(paths: VmPaths): Promise<boolean> {
  if (await spareScratchGb(paths) === undefined) return false;
  return await Deno.lstat(paths.record).then(() => false, (error) => error instanceof Deno.errors.NotFound);
}
