import { acceptAll } from "../../../lib/base/accept/mod.ts";
import { encodeFrame, writeAll } from "../../../lib/base/wire/mod.ts";
import { connectHost, PORTS, type StreamOpen } from "../../../lib/machine/guest/wire/mod.ts";
import type { Notes } from "./notes.ts";
import { tcpOwner } from "./owner.ts";
import { originalDestination, reset } from "./socket.ts";

/** Buffer for one direction of one connection, in `bytes`; a thousand connections take 32 MiB. */
const CHUNK = 16 * 1024;
/** Most connections; further ones wait until one ends. */
const CONNECTIONS_MAX = 1024;

/** Relays connections of programs to the host, each over its own vsock connection. */
export class Relay {
  /** random start, so that after a restart no number repeats an earlier connection */
  #lastStream = Math.floor(Math.random() * 2 ** 48);
  #count = 0;
  /** lets the next connection in */
  #admit?: () => void;
  readonly #notes: Notes;

  /** ends a connection that policy refuses, by its number */
  readonly #refuse = new Map<number, () => void>();

  constructor(notes: Notes) {
    this.#notes = notes;
    notes.onBlocked = ({ stream, text }) => {
      logLine(text);
      this.#refuse.get(stream)?.();
    };
  }

  async serve(listener: Deno.TcpListener): Promise<void> {
    for await (const conn of acceptAll(listener)) {
      this.#count++;
      this.#relay(conn).finally(() => {
        this.#count--;
        this.#admit?.();
      });
      if (this.#count >= CONNECTIONS_MAX) await new Promise<void>((resolve) => this.#admit = resolve);
    }
  }

  async #relay(conn: Deno.TcpConn): Promise<void> {
    const origin = originalDestination(conn);
    if (!origin) return reset(conn);
    const { hostname: host_ip, port } = origin;
    const { process_name, pid } = tcpOwner(conn.remoteAddr, origin);
    const open: StreamOpen = { t: "Open", host_ip, port, process_name, pid, stream: ++this.#lastStream };
    let host: Deno.Conn | undefined;
    this.#notes.open();
    this.#refuse.set(open.stream, () => {
      reset(conn);
      close(host);
    });
    try {
      host = await connectHost(PORTS.tcp);
      await writeAll(host, encodeFrame(open));
      const upload = this.#upload(conn, host, open.stream);
      await copy(host, conn);
      await conn.closeWrite();
      // The host has closed the connection: the upload fails and ends when the program sends more.
      await upload;
      conn.close();
    } catch {
      reset(conn);
    } finally {
      this.#refuse.delete(open.stream);
      close(host);
    }
  }

  async #upload(conn: Deno.TcpConn, host: Deno.Conn, stream: number): Promise<void> {
    try {
      const bytes = await copy(conn, host);
      await this.#notes.send({ t: "End", stream, bytes });
    } catch {
      // The program or the host broke it off; without an End the host treats it so.
      close(host);
    }
  }
}

/** Copies until the end of `from`. @returns number of `bytes` copied */
async function copy(from: Deno.Conn, to: Deno.Conn): Promise<number> {
  const chunk = new Uint8Array(CHUNK);
  let bytes = 0;
  for (let read = await from.read(chunk); read !== null; read = await from.read(chunk)) {
    await writeAll(to, chunk.subarray(0, read));
    bytes += read;
  }
  return bytes;
}

/** Writes a line into the kernel's log, where the user of the guest finds it: `dmesg`. */
function logLine(text: string): void {
  try {
    Deno.writeTextFileSync("/dev/kmsg", `<4>sbx: ${text}\n`);
  } catch {
    // The kernel takes few lines a second.
  }
}

function close(conn: Deno.Conn | undefined): void {
  try {
    conn?.close();
  } catch {
    // closed already
  }
}
