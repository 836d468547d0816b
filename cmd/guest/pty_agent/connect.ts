import { HOST_CID, PORTS } from "../../../lib/guest/wire/mod.ts";

/** Tells init that the agent waits for its host; init opens the pipe, which only a template has, once the host is there. */
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
  const waited = await exists(PLUGGED);
  if (waited) {
    await prepare();
    Deno.writeTextFileSync(WAITING, "");
    await Deno.readTextFile(PLUGGED);
  }
  while (true) {
    const conn = await tryConnect();
    if (conn) return { conn, waited };
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

function tryConnect(): Promise<Deno.Conn | undefined> {
  return connectHost(PORTS.control).catch(() => undefined);
}
