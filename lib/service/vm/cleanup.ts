import { discardSuspended, discardUnfinished, isSuspended, writeState } from "../../session/mod.ts";
import { sealRecord } from "../record/seal.ts";
import type { Vm } from "./vm.ts";

/**
 * Cleans up after a VM's process has ended: removes its sockets and seals its ledger.
 *
 * @param last state that the process reported
 * @returns the new state: Defunct if the process did not report its end
 */
export async function settle(paths: Vm["paths"], last: Vm["state"]): Promise<Vm["state"]> {
  await Deno.remove(paths.socket).catch(() => {});
  await Deno.remove(paths.sockets, { recursive: true }).catch(() => {});
  await discardUnfinished(paths);
  await sealRecord(paths, last.pid);
  const hasMemory = await isSuspended(paths);
  // Memory older than its disk is useless.
  if (!hasMemory) await discardSuspended(paths);
  const isOver = last.state === "Stopped" || last.state === "Defunct";
  if (isOver || last.state === "Suspended" && hasMemory) return last;
  if (hasMemory) {
    // It ended between the last byte of its memory and its report, or before its guest had answered again.
    const state = { ...last, state: "Suspended" as const };
    await writeState(paths, state).catch(() => {});
    return state;
  }
  const state = {
    ...last,
    state: "Defunct" as const,
    last_error: last.state === "Suspended"
      ? "it ended while it resumed, and its disk has changed since its memory was written"
      : `its process (pid ${last.pid}) exited without reporting a reason`,
  };
  await writeState(paths, state).catch(() => {});
  return state;
}
