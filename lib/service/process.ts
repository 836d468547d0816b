import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { type Detached, spawnDetached } from "../base/spawn/mod.ts";
import type { Vm } from "./vm.ts";

/** How long a new sbx-process may take until it answers. */
const PROCESS_DEADLINE_MS = 20_000;
const PROCESS_POLL_MS = 5;

/** The process of one VM, started and not yet listening. */
export interface VmProcess {
  /** resolves when it listens on the VM's socket; rejects with `vm.boot_failed` when it does not come to that */
  listening: Promise<void>;
  kill(): void;
}

export async function startProcess(home: Home, { record, paths }: Vm): Promise<VmProcess> {
  await Deno.mkdir(`${home.runDir}/instances`, { recursive: true, mode: 0o700 });
  const log = `${paths.logs}/process.log`;
  const process = spawnDetached("process", [record.id], log);
  return { listening: untilListening(process, paths.socket, log), kill: process.kill };
}

async function untilListening({ exited }: Detached, socket: string, log: string): Promise<void> {
  let gone = false;
  exited.then(() => gone = true);
  for (const deadline = performance.now() + PROCESS_DEADLINE_MS; performance.now() < deadline && !gone;) {
    if (await Deno.lstat(socket).then(() => true, () => false)) return;
    await new Promise((resolve) => setTimeout(resolve, PROCESS_POLL_MS));
  }
  throw new SbxError("vm.boot_failed", "the VM's process did not start", { hint: `${log} says why` });
}
