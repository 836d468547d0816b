import { redirectOutput } from "../../ffi/libc/output.ts";
import type { Home } from "../../lib/base/home/mod.ts";
import { replaceArgument } from "../../lib/base/spawn/mod.ts";
import { NO_SESSION, receiveSession } from "../../lib/ipc/mod.ts";
import { loadAhead, sessionPaths } from "../../lib/session/mod.ts";

/**
 * Loads what a VM's process needs, and waits for a session; from then on this process cannot be told from one that was
 * started for it.
 *
 * @returns undefined when the service has ended
 */
export async function awaitSession(home: Home): Promise<string | undefined> {
  const [id] = await Promise.all([receiveSession(Deno.stdin.readable), loadAhead()]);
  if (id === undefined) return undefined;
  redirectOutput(`${sessionPaths(home, id).logs}/process.log`);
  replaceArgument(NO_SESSION, id);
  return id;
}
