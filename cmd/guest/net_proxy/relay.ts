import { encodeFrame } from "../../../lib/base/wire/frame.ts";
import { writeAll } from "../../../lib/base/wire/write.ts";
import { type Open, PORTS } from "../../../lib/guest/messages.ts";
import { connectionsOf } from "./accept.ts";
import { connectHost } from "./host.ts";
import type { Notes } from "./notes.ts";
import { tcpOwner } from "./owner.ts";
import { originalDestination, reset } from "./socket.ts";

/** Bytes that one direction of one connection holds; a thousand connections take 32 MiB. */
const CHUNK = 16 * 1024;
/** Connections at once; the next ones wait until one of these ends. */
const CONNECTIONS_MAX = 1024;

/** Carries connections of programs to the host, each in a vsock connection of its own. */
export class Relay {
  /** from anywhere: after a restart no number may mean a connection of before */
  #streams = Math.floor(Math.random() * 2 ** 48);
  #open = 0;
  #room?: () => void;
  readonly #notes: Notes;

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  async serve(listener: Deno.TcpListener): Promise<void> {
    for await (const conn of connectionsOf(listener)) {
      this.#open++;
      this.#carry(conn).finally(() => {
        this.#open--;
        this.#room?.();
      });
      if (this.#open >= CONNECTIONS_MAX) await new Promise<void>((resolve) => this.#room = resolve);
    }
  }

  async #carry(conn: Deno.TcpConn): Promise<void> {
    const origin = originalDestination(conn);
    if (!origin) return reset(conn);
    const { hostname: host_ip, port } = origin;
    const { process_name, pid } = tcpOwner(conn.remoteAddr, origin);
    const open: Open = { t: "Open", host_ip, port, process_name, pid, stream: ++this.#streams };
    let host: Deno.Conn | undefined;
    try {
      host = await connectHost(PORTS.tcp);
      await writeAll(host, encodeFrame(open));
      const up = this.#up(conn, host, open.stream);
      await copy(host, conn);
      await conn.closeWrite();
      // The host has ended all of it: what the program still sends has nowhere to go, and that ends this.
      await up;
      conn.close();
    } catch {
      reset(conn);
    } finally {
      close(host);
    }
  }

  async #up(conn: Deno.TcpConn, host: Deno.Conn, stream: number): Promise<void> {
    try {
      const bytes = await copy(conn, host);
      await this.#notes.tell({ t: "End", stream, bytes });
    } catch {
      // The program broke it off, or the host has: without an End the host knows.
      close(host);
    }
  }
}

/** @returns how many bytes went across */
async function copy(from: Deno.Conn, to: Deno.Conn): Promise<number> {
  const chunk = new Uint8Array(CHUNK);
  let bytes = 0;
  for (let read = await from.read(chunk); read !== null; read = await from.read(chunk)) {
    await writeAll(to, chunk.subarray(0, read));
    bytes += read;
  }
  return bytes;
}

function close(conn: Deno.Conn | undefined): void {
  try {
    conn?.close();
  } catch {
    // closed already
  }
}
