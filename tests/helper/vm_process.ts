/** The socket of a VM's process, served as a test wants it. */
import { join } from "node:path";
import { type Call, type Caller, CallServer } from "../../lib/session/ipc/mod.ts";

/**
 * Runs `work` with sockets of processes in a folder of their own.
 * @param handle serves every call, by the socket's name
 */
export async function withProcesses(
  names: string[],
  handle: (name: string, call: Call, caller: Caller) => Promise<void>,
  work: (dir: string, servers: Map<string, CallServer>) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-" });
  const servers = new Map(names.map((name) => {
    const listener = Deno.listen({ transport: "unix", path: join(dir, `${name}.sock`) });
    return [name, new CallServer(listener, (call, caller) => handle(name, call, caller))];
  }));
  try {
    await work(dir, servers);
  } finally {
    for (const server of servers.values()) await server.close().catch(() => {});
    await Deno.remove(dir, { recursive: true });
  }
}
