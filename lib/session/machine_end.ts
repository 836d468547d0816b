import type { SbxError } from "../base/error/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import type { GuestLink } from "../machine/guest/mod.ts";
import type { Machine, MachineExit } from "../machine/vm/mod.ts";
import { panicOf } from "./panic.ts";

/** Longest time in `ms` between the end of the agent's connection and of a machine that powers off. */
const POWER_OFF_MS = timeLimit(2000);

/** How a machine ended. */
interface End {
  state: "Stopped" | "Defunct";
  last_error?: string;
}

/**
 * Waits until a machine has ended, or its guest is lost: then it is killed.
 *
 * @param console path of its console's log
 */
export async function endOf(
  machine: Machine,
  currentLink: () => GuestLink,
  isStopping: () => boolean,
  console: string,
): Promise<End> {
  const lost = await lostBefore(machine, currentLink);
  if (lost) {
    // A machine that powers off loses the agent's connection a moment earlier: no failure.
    const poweredOff = await Promise.race([
      machine.exited,
      new Promise<null>((resolve) => setTimeout(() => resolve(null), POWER_OFF_MS)),
    ]);
    await machine.kill();
    if (!poweredOff && !isStopping()) return { state: "Defunct", last_error: lost.message };
  }
  const { code, signal } = await machine.exited;
  if (isStopping()) return { state: "Stopped" };
  // A kernel that panics restarts its machine, which ends like one that powers off.
  const panic = await panicOf(console);
  if (panic === undefined && code === 0 && !signal) return { state: "Stopped" };
  const how = panic === undefined ? signal ?? `exit code ${code}` : `its kernel: ${panic}`;
  return { state: "Defunct", last_error: `the machine ended unexpectedly (${how})` };
}

/** The loss of the guest, if it comes before the machine's end. A link that was replaced is not the guest's loss. */
async function lostBefore(machine: Machine, currentLink: () => GuestLink): Promise<SbxError | undefined> {
  while (true) {
    const link = currentLink();
    const event: MachineExit | { lost: SbxError } = await Promise.race([
      machine.exited,
      link.lost.catch((lost) => ({ lost })),
    ]);
    if (!("lost" in event)) return undefined;
    if (link === currentLink()) return event.lost;
  }
}
