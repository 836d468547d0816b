/** Devices of a machine, and all of its memory that is no file: written down by QEMU, and read again (its "migration"). */
import { writeAll } from "../../base/wire/mod.ts";
import type { Qmp } from "./qmp.ts";

/** Most `bytes` of the devices' state; a machine with four devices has 320 KB. */
const STATE_LIMIT = 64 * 1024 * 1024;
/** QEMU's default rate would take a second for data that is ready at once, in `bytes` a second. */
const UNLIMITED = 10 ** 12;

/** Memory is a shared file, which stays where it is. */
const CAPABILITIES = [
  { capability: "x-ignore-shared", state: true },
  { capability: "events", state: true },
];

/**
 * Writes down the state of a stopped machine.
 *
 * @param socket path for a UDS, free; QEMU may start no program and open no file that it was not started with
 * @throws {Error} QEMU refuses, e.g. because of a device that it cannot write down
 */
export async function saveState(qmp: Qmp, socket: string): Promise<Uint8Array> {
  await qmp.execute("migrate-set-capabilities", { capabilities: CAPABILITIES });
  await qmp.execute("migrate-set-parameters", { "max-bandwidth": UNLIMITED });
  using listener = Deno.listen({ transport: "unix", path: socket });
  const arrived = listener.accept().then(readAll);
  arrived.catch(() => {});
  const done = ended(qmp);
  await qmp.execute("migrate", { uri: `unix:${socket}` });
  const [state] = await Promise.all([arrived, done]);
  await Deno.remove(socket).catch(() => {});
  return state;
}

/**
 * Gives a machine that was started with `-incoming defer` its state; it stays stopped.
 *
 * @throws {Error} the state does not fit to the machine
 */
export async function loadState(qmp: Qmp, socket: string, state: Uint8Array): Promise<void> {
  await qmp.execute("migrate-set-capabilities", { capabilities: CAPABILITIES });
  const done = ended(qmp);
  await qmp.execute("migrate-incoming", { uri: `unix:${socket}` });
  using conn = await Deno.connect({ transport: "unix", path: socket });
  await writeAll(conn, state);
  // For a state that is cut off QEMU would wait for ever.
  await conn.closeWrite();
  await done;
}

/** Watches for the end of the transfer; waiting for it is optional. */
function ended(qmp: Qmp): Promise<void> {
  const end = qmp.until(({ event, data }) =>
    event === "MIGRATION" && (data?.status === "completed" || data?.status === "failed")
  ).then(({ data }) => {
    if (data?.status === "failed") throw new Error("QEMU could not transfer the machine's state");
  });
  end.catch(() => {});
  return end;
}

async function readAll(conn: Deno.Conn): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of conn.readable) {
    size += chunk.length;
    if (size > STATE_LIMIT) throw new Error("the machine's state is too long");
    chunks.push(chunk);
  }
  const state = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    state.set(chunk, at);
    at += chunk.length;
  }
  return state;
}
