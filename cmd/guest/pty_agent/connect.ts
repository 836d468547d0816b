/** Ways to the host: the control connection, whose vsock comes and goes, and the console. */
import { connectHost, PORTS } from "../../../lib/machine/guest/wire/mod.ts";
import { COME_BACK, VSOCK_LEFT } from "../../../lib/machine/vm/schema.ts";
import { ROOTED } from "./boot.ts";

/** Makes the kernel search for devices that were plugged in. */
const RESCAN = "/sys/bus/pci/rescan";
/** Driver of the vsock, with a link to its device, and the slots that devices are plugged into. */
const DRIVER = "/sys/bus/virtio/drivers/vmw_vsock_virtio_transport";
const SLOTS = "/sys/bus/pci/slots";
/** There where the vsock cannot be ejected; init makes it. */
const FIXED = "/run/sbx/fixed";
/** Signals that the agent waits. Init opens the pipe, only in a template, once the host is there. */
const WAITING = "/run/sbx/waiting";
const PLUGGED = "/run/sbx/plugged";
/** Time between two searches for the host, in `ms`. */
const RETRY_MS = 5;

/**
 * Opens the first control connection. A machine made to be written down has no vsock: the agent waits, in
 * every copy too, until the host has plugged one in.
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

/** The vsock's device while no driver has it, and the host's word that it may be used again. */
let free: { device: string; comeBack: Promise<void> } | undefined;

/** Reopens the control connection, once the host has plugged in another vsock or released this one. */
export async function reconnectControl(): Promise<Deno.Conn> {
  await free?.comeBack;
  while (true) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    if (free) bindVsock(free.device);
    Deno.writeTextFileSync(RESCAN, "1");
    const conn = await tryConnect();
    if (!conn) continue;
    free = undefined;
    return conn;
  }
}

/**
 * Releases the vsock, so that the machine can be written down; all its connections are reset. It is ejected,
 * or left without a driver where it is fixed, as on a Mac.
 */
export function ejectVsock(): void {
  const device = Array.from(Deno.readDirSync(DRIVER)).find(({ name }) => name.startsWith("virtio"))?.name;
  if (!device) throw new Error("there is no vsock to eject");
  if (isFixed()) return freeVsock(device);
  // …/0000:01:00.0/virtio1: the slot has the address without the function.
  const pci = Deno.realPathSync(`${DRIVER}/${device}`).split("/").at(-2)!;
  for (const { name } of Deno.readDirSync(SLOTS)) {
    const address = Deno.readTextFileSync(`${SLOTS}/${name}/address`).trim();
    if (pci.startsWith(`${address}.`)) return Deno.writeTextFileSync(`${SLOTS}/${name}/power`, "0");
  }
  throw new Error(`the vsock ${pci} is in no slot`);
}

function isFixed(): boolean {
  try {
    Deno.lstatSync(FIXED);
    return true;
  } catch {
    return false;
  }
}

function freeVsock(device: string): void {
  const { promise, resolve } = Promise.withResolvers<void>();
  onLine(COME_BACK, resolve);
  free = { device, comeBack: promise };
  Deno.writeTextFileSync(`${DRIVER}/unbind`, device);
  sayLine(VSOCK_LEFT);
}

function bindVsock(device: string): void {
  try {
    Deno.writeTextFileSync(`${DRIVER}/bind`, device);
  } catch {
    // bound already
  }
}

function tryConnect(): Promise<Deno.Conn | undefined> {
  return connectHost(PORTS.control).catch(() => undefined);
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

/** The guest's console, for messages that the host cannot send over a vsock. */
const CONSOLE = "/dev/console";

const handlers = new Map<string, () => void>();

/** Calls a function whenever the host writes a line, from now on. */
export function onLine(line: string, handler: () => void): void {
  const isRead = handlers.size > 0;
  handlers.set(line, handler);
  if (!isRead) read().catch((error) => console.error("sbx-pty-agent: the console cannot be read:", error));
}

/** Writes a message for the host as a separate line. */
function sayLine(line: string): void {
  Deno.writeTextFileSync(CONSOLE, `\n${line}\n`);
}

async function read(): Promise<void> {
  using input = await Deno.open(CONSOLE);
  const bytes = new Uint8Array(256);
  const decoder = new TextDecoder();
  for (let count = await input.read(bytes); count !== null; count = await input.read(bytes)) {
    const text = decoder.decode(bytes.subarray(0, count));
    for (const [line, handler] of handlers) if (text.includes(line)) handler();
  }
}
