import { connectHost, PORTS } from "../../../lib/guest/wire/mod.ts";
import { ROOTED } from "./boot.ts";

/** Makes the kernel look for devices that were plugged in. */
const RESCAN = "/sys/bus/pci/rescan";
/** Driver of the vsock, with a link to its device, and the slots that devices are plugged into. */
const DRIVER = "/sys/bus/virtio/drivers/vmw_vsock_virtio_transport";
const SLOTS = "/sys/bus/pci/slots";
/** Tells init that the agent waits for its host; init opens the pipe, which only a template has, once the host is there. */
const WAITING = "/run/sbx/waiting";
const PLUGGED = "/run/sbx/plugged";
/** Time between two looks for the host, in `ms`. */
const RETRY_MS = 5;

/**
 * Opens the first control connection. A machine that is there to be written down has no vsock: the agent waits, also in
 * every copy of it, until the host has plugged one in.
 *
 * @returns the connection, and whether it was waited for
 */
export async function connectControl(
  prepare: () => Promise<void>,
): Promise<{ conn: Deno.Conn; waited: boolean }> {
  const waited = await exists(PLUGGED) && !await exists(ROOTED);
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

/** Opens the control connection again, once the host has plugged in another vsock for the one that was ejected. */
export async function reconnectControl(): Promise<Deno.Conn> {
  while (true) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    Deno.writeTextFileSync(RESCAN, "1");
    const conn = await tryConnect();
    if (conn) return conn;
  }
}

/** Ejects the vsock, without which the machine can be written down; all its connections are reset. */
export function ejectVsock(): void {
  const device = Array.from(Deno.readDirSync(DRIVER)).find(({ name }) => name.startsWith("virtio"));
  if (!device) throw new Error("there is no vsock to eject");
  // …/0000:01:00.0/virtio1: the slot has the address without the function.
  const pci = Deno.realPathSync(`${DRIVER}/${device.name}`).split("/").at(-2)!;
  for (const { name } of Deno.readDirSync(SLOTS)) {
    const address = Deno.readTextFileSync(`${SLOTS}/${name}/address`).trim();
    if (pci.startsWith(`${address}.`)) return Deno.writeTextFileSync(`${SLOTS}/${name}/power`, "0");
  }
  throw new Error(`the vsock ${pci} is in no slot`);
}

function tryConnect(): Promise<Deno.Conn | undefined> {
  return connectHost(PORTS.control).catch(() => undefined);
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}
