import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { type Detached, spawnDetached } from "../../base/spawn/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { SpareProcess } from "./spare.ts";
import type { Vm } from "./vm.ts";

/** Longest wait for a new sbx-process to listen, and between two looks, in `ms`. */
const LISTEN_DEADLINE_MS = timeLimit(20_000);
const LISTEN_POLL_MS = 5;

/** An sbx-process that was just started. */
export interface SpawnedProcess {
  /** resolves when it listens on the VM's socket; rejects with `vm.boot_failed` if it never does */
  listening: Promise<void>;
  kill(): void;
}

/** Gives a VM its sbx-process, which outlives this one: the spare one, or else a new one. */
export async function spawnProcess(home: Home, vm: Vm, spare: SpareProcess): Promise<SpawnedProcess> {
  await Deno.mkdir(`${home.runDir}/instances`, { recursive: true, mode: 0o700 });
  const waiting = await spare.take(vm.record.id);
  if (!waiting) return startProcess(vm);
  let process = untilItListens(waiting, vm);
  // Killed while it waited, perhaps for want of memory.
  const listening = process.listening.catch(() => (process = startProcess(vm)).listening);
  return { listening, kill: () => process.kill() };
}

function startProcess(vm: Vm): SpawnedProcess {
  return untilItListens(spawnDetached("process", [vm.record.id], logOf(vm)), vm);
}

function untilItListens(process: Detached, vm: Vm): SpawnedProcess {
  return { listening: untilListening(process, vm.paths.socket, logOf(vm)), kill: process.kill };
}

function logOf({ paths }: Vm): string {
  return `${paths.logs}/process.log`;
}

/** Waits until a process accepts connections. Its socket alone says less: it exists a moment before anyone listens on it. */
export async function untilListening(
  { exited }: Pick<Detached, "exited">,
  socket: string,
  log: string,
): Promise<void> {
  let hasExited = false;
  exited.then(() => hasExited = true);
  const deadline = performance.now() + LISTEN_DEADLINE_MS;
  while (performance.now() < deadline && !hasExited) {
    const answer = await Deno.connect({ transport: "unix", path: socket }).catch(() => undefined);
    if (answer) return answer.close();
    await new Promise((resolve) => setTimeout(resolve, LISTEN_POLL_MS));
  }
  throw new SbxError("vm.boot_failed", "the VM's process did not start", {
    hint: `${log} has the reason`,
  });
}
