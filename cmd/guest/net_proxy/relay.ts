import { FrameChannel } from "../../../lib/wire/channel.ts";
import { encodeFrame } from "../../../lib/wire/frame.ts";
import { writeAll } from "../../../lib/wire/write.ts";
import { type End, HOST_CID, type Open, PORTS } from "../../../lib/guest/messages.ts";
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
  #ends?: Promise<FrameChannel>;

  async serve(listener: Deno.TcpListener): Promise<never> {
    while (true) {
      const conn = await listener.accept();
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
      host = await connect();
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
      await this.#end({ t: "End", stream, bytes });
    } catch {
      // The program broke it off, or the host has: without an End the host knows.
      close(host);
    }
  }

  async #end(end: End): Promise<void> {
    const ends = this.#ends ??= connect().then((conn) => new FrameChannel(conn));
    try {
      await (await ends).send(end);
    } catch (error) {
      if (this.#ends === ends) this.#ends = undefined;
      throw error;
    }
  }
}

function connect(): Promise<Deno.Conn> {
  return Deno.connect({ transport: "vsock", cid: HOST_CID, port: PORTS.tcp });
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
