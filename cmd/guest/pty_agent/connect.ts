import { HOST_CID, PORTS } from "../../../lib/guest/wire/mod.ts";

/** Makes the kernel look for devices that were plugged in. */
const RESCAN = "/sys/bus/pci/rescan";
/** Tells init that the agent waits for its host, and that the host is there. */
const WAITING = "/run/sbx/waiting";
const PLUGGED = "/run/sbx/plugged";
/** Time between two looks for the host, in `ms`. */
const RETRY_MS = 5;

/** Connects to a vsock port of the host. */
export function connectHost(port: number): Promise<Deno.Conn> {
  return Deno.connect({ transport: "vsock", cid: HOST_CID, port });
}

/**
 * Opens the control connection. A machine that is there to be written down has no vsock: the agent waits, also in every
 * copy of it, until the host has plugged one in.
 *
 * @returns the connection, and whether it was waited for
 */
export async function connectControl(
  prepare: () => Promise<void>,
): Promise<{ conn: Deno.Conn; waited: boolean }> {
  const first = await tryConnect();
  if (first) return { conn: first, waited: false };
  await prepare();
  Deno.writeTextFileSync(WAITING, "");
  while (true) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    Deno.writeTextFileSync(RESCAN, "1");
    const conn = await tryConnect();
    if (!conn) continue;
    Deno.writeTextFileSync(PLUGGED, "\n");
    return { conn, waited: true };
  }
}

function tryConnect(): Promise<Deno.Conn | undefined> {
  return connectHost(PORTS.control).catch(() => undefined);
}
