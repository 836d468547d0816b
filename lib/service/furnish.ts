import { dirname } from "node:path";
import { type Contract, writeContract, writeRecord } from "../session/mod.ts";
import { type Asked, writeAsked } from "./asked.ts";
import { copySparse, makeScratch } from "./scratch.ts";
import type { Vm } from "./vm.ts";

/** Programs of any user in the guest may enter it, whatever the umask here is; on the host the folder above is closed. */
const WORKSPACE_MODE = 0o755;

/** Makes the folders, the disk and the files of a new VM; those of its source are copied. */
export async function furnish(
  vm: Vm,
  asked: Asked,
  contract: Contract,
  source: Vm | undefined,
): Promise<void> {
  const { paths, record } = vm;
  for (const dir of [paths.dir, paths.logs, paths.snapshots, dirname(paths.ledger)]) {
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  }
  if (source) await copySparse(source.paths.workspace, paths.workspace);
  else await makeWorkspace(paths.workspace);
  if (record.scratch_gb > 0) {
    if (source && source.record.scratch_gb > 0) await copySparse(source.paths.scratch, paths.scratch);
    else await makeScratch(paths.scratch, record.scratch_gb);
  }
  await Promise.all([writeAsked(paths, asked), writeRecord(paths, record), writeContract(paths, contract)]);
}

async function makeWorkspace(path: string): Promise<void> {
  await Deno.mkdir(path);
  await Deno.chmod(path, WORKSPACE_MODE);
}
