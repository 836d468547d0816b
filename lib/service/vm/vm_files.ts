/** Files of a VM on the host: made for a new VM, copied from the source of a fork. */
import { dirname } from "node:path";
import { copySparse } from "../../base/copy/mod.ts";
import { prepareShare } from "../../machine/live/mod.ts";
import { type Contract, writeContract, writeRecord } from "../../session/mod.ts";
import { type VmRequest, writeRequest } from "./request.ts";
import { makeScratch } from "./scratch.ts";
import { makeWorkspace, spareScratchGb, unmarkSpare } from "./spare_files.ts";
import { CACHED_MS, type Change, toText } from "../../machine/snapshot/mod.ts";
import type { Vm } from "./vm.ts";
import { guestPath, relativePath } from "../run/workspace/mod.ts";

/** Makes the folders, the disk and the files of a new VM, unless they were made ahead; workspace and disk of a source are copied. */
export async function makeVmFiles(
  vm: Vm,
  request: VmRequest,
  contract: Contract,
  source: Vm | undefined,
): Promise<void> {
  const { paths, record } = vm;
  for (const dir of [paths.dir, paths.logs, paths.snapshots, dirname(paths.ledger)]) {
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  }
  const ahead = await spareScratchGb(paths);
  if (source) await copySparse(source.paths.workspace, paths.workspace);
  else if (ahead === undefined) await makeWorkspace(paths);
  if (record.live) await prepareShare(record.live, paths);
  if (record.scratch_gb > 0 && record.scratch_gb !== ahead) {
    await Deno.remove(paths.scratch).catch(() => {});
    if (source && source.record.scratch_gb > 0) await copySparse(source.paths.scratch, paths.scratch);
    else await makeScratch(paths.scratch, record.scratch_gb);
  }
  await Promise.all([
    writeRequest(paths, request),
    writeRecord(paths, record),
    writeContract(paths, contract),
  ]);
  if (ahead !== undefined) await unmarkSpare(paths);
}

/** Waits until a running guest sees a file as it was written: a program started next must not read the old one. */
export async function awaitFile(vm: Vm, path: string, size: number): Promise<void> {
  if (vm.state.state !== "Running") return;
  await vm.process.call({ t: "AwaitFile", path: guestPath(relativePath(path)), size }).catch(() => {});
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
