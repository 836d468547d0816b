import { redirectOutput } from "../../ffi/libc/output.ts";
import type { Home } from "../../lib/base/home/mod.ts";
import { replaceArgument } from "../../lib/base/spawn/mod.ts";
import { NO_SESSION, receiveOrders } from "../../lib/session/ipc/mod.ts";
import { loadAhead, sessionPaths, SpareMachine } from "../../lib/session/mod.ts";
import type { Hypervisor } from "../../lib/machine/vm/mod.ts";

/** The session of a process that was started ahead. */
export interface AwaitedSession {
  id: string;
  /** its machine, if one was started ahead */
  spare?: SpareMachine;
}

/**
 * Loads the code of a VM's process, starts a machine when ordered to, and waits for a session; from then on
 * this process is the same as one started for that session.
 *
 * @returns undefined when the service has ended
 */
export async function awaitSession(home: Home, hypervisor: Hypervisor): Promise<AwaitedSession | undefined> {
  const loaded = loadAhead();
  let spare: SpareMachine | undefined;
  for await (const order of receiveOrders(Deno.stdin.readable)) {
    if (order.t === "Machine") {
      await loaded;
      spare = new SpareMachine(order.machine, home, hypervisor);
      continue;
    }
    const { id } = order;
    await loaded;
    redirectOutput(`${sessionPaths(home, id).logs}/process.log`);
    replaceArgument(NO_SESSION, id);
    if (spare?.id === id) return { id, spare };
    // A VM that exists already, or whose machine starts in another way, keeps its own folders.
    spare?.remove();
    return { id };
  }
  await spare?.remove();
}
