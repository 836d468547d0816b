import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { type Detached, spawnDetached } from "../base/spawn/mod.ts";
import type { Vm } from "./vm.ts";

/** Longest wait for a new sbx-process to listen, and between two looks, in `ms`. */
const LISTEN_DEADLINE_MS = 20_000;
const LISTEN_POLL_MS = 5;

/** An sbx-process that was just started. */
export interface SpawnedProcess {
  /** resolves when it listens on the VM's socket; rejects with `vm.boot_failed` if it never does */
  listening: Promise<void>;
  kill(): void;
}

/** Starts the sbx-process of a VM, which outlives this process. */
export async function spawnProcess(home: Home, { record, paths }: Vm): Promise<SpawnedProcess> {
  await Deno.mkdir(`${home.runDir}/instances`, { recursive: true, mode: 0o700 });
  const log = `${paths.logs}/process.log`;
  const process = spawnDetached("process", [record.id], log);
  return { listening: untilListening(process, paths.socket, log), kill: process.kill };
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
