/** Files of forks. They are made in a folder beside the VMs, and moved to their places when everything is in them. */
import { dirname, join } from "node:path";
import { copyLinks, copySparse } from "../../base/copy/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { readLast } from "../../ledger/read/mod.ts";
import { Room } from "../../repo/mod.ts";
import {
  type Contract,
  type ForkedFrom,
  isSuspended,
  type VmPaths,
  vmPaths,
  type VmRecord,
  writeContract,
  writeRecord,
  writeState,
} from "../../session/mod.ts";
import { type VmRequest, writeRequest } from "./request.ts";
import type { Vm } from "./vm.ts";

/** Begin of the name of such a folder. */
const UNFINISHED = ".fork-";

/** Files of a fork that are not its source's. */
export interface ForkContent {
  request: VmRequest;
  contract: Contract;
}

/**
 * Makes the files of all forks of a VM: in the end they are all there, or none is.
 *
 * @returns time that a running source stood still, in `ms`
 * @throws {SbxError} `vm.fork_failed`, `disk.full`, `process.gone`
 */
export async function makeForkFiles(
  { sessionsDir }: Pick<Home, "sessionsDir">,
  source: Vm,
  forks: readonly Vm[],
  content: ForkContent,
): Promise<number | undefined> {
  const work = join(sessionsDir, UNFINISHED + crypto.randomUUID());
  try {
    const [first, ...others] = forks.map(({ record }) => vmPaths(join(work, record.id)));
    await Deno.mkdir(work, { mode: 0o700 });
    await Deno.mkdir(first.dir, { mode: 0o700 });
    const { stillMs, ...forked_from } = await takeFiles(source, first);
    for (const other of others) {
      await Deno.mkdir(other.dir, { mode: 0o700 });
      await copyFiles(first, other);
    }
    const room = new Room(source.paths.repository);
    for (const vm of forks) {
      vm.record = { ...vm.record, forked_from };
      await room.copyTo(new Room(vmPaths(join(work, vm.record.id)).repository));
      await describe(vm.record, vmPaths(join(work, vm.record.id)), content);
    }
    for (const { record, paths } of forks) {
      await Deno.mkdir(dirname(paths.ledger), { recursive: true, mode: 0o700 });
      await Deno.rename(join(work, record.id), paths.dir);
    }
    return stillMs;
  } catch (error) {
    for (const { paths } of forks) {
      await Deno.remove(paths.dir, { recursive: true }).catch(() => {});
      await Deno.remove(dirname(paths.ledger)).catch(() => {});
    }
    throw error;
  } finally {
    await Deno.remove(work, { recursive: true }).catch(() => {});
  }
}

/** Removes unfinished forks of services that have ended. */
export async function removeUnfinishedForks({ sessionsDir }: Pick<Home, "sessionsDir">): Promise<void> {
  for await (const { name } of Deno.readDir(sessionsDir)) {
    if (!name.startsWith(UNFINISHED)) continue;
    // A process that is still writing there removes it itself.
    await Deno.remove(join(sessionsDir, name), { recursive: true }).catch((error) => log.warn(error));
  }
}

/** Takes a VM's disk, workspace and memory as they are at one moment. */
async function takeFiles(source: Vm, to: VmPaths): Promise<ForkedFrom & { stillMs?: number }> {
  const session = source.record.id;
  if (source.state.state === "Running") {
    const { still_ms, event } = await source.process.call({ t: "Fork", dir: to.dir });
    return { session, event, stillMs: still_ms };
  }
  await copyFiles(source.paths, to);
  // A VM that never booted has no ledger.
  const event = await readLast(source.paths.ledger).catch(() => undefined);
  return { session, event };
}

async function copyFiles(from: VmPaths, to: VmPaths): Promise<void> {
  await copySparse(from.workspace, to.workspace);
  if (await exists(from.scratch)) await copySparse(from.scratch, to.scratch);
  if (await isSuspended(from)) await copyLinks(from.suspended, to.suspended);
}

/** Writes a VM's description for the service, which knows the VM once it is in its place. */
async function describe(
  record: VmRecord,
  to: VmPaths,
  { request, contract }: ForkContent,
): Promise<void> {
  const state = await isSuspended(to) ? "Suspended" as const : "Stopped" as const;
  await Promise.all([to.logs, to.snapshots].map((dir) => Deno.mkdir(dir, { mode: 0o700 })));
  await Promise.all([
    writeRequest(to, request),
    writeRecord(to, record),
    writeContract(to, contract),
    writeState(to, { state, boot_stages: [], pid: 0 }),
  ]);
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}
