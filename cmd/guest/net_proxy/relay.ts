import { acceptAll } from "../../../lib/base/accept/mod.ts";
import { encodeFrame, FrameChannel, writeAll } from "../../../lib/base/wire/mod.ts";
import {
  connectHost,
  type Note,
  PORTS,
  type StreamBlocked,
  type StreamOpen,
} from "../../../lib/machine/guest/wire/mod.ts";
import { formatAddress, type SocketAddress, tcpOwner } from "./owner.ts";
import { originalAddress, resetConnection } from "../../../ffi/libc/tcp.ts";
import { ignore } from "../../../lib/base/error/mod.ts";

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
    const owner = tcpOwner(conn.remoteAddr, origin);
    const open: StreamOpen = { t: "Open", host_ip, port, ...owner, stream: ++this.#lastStream };
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

/** Original destination of a redirected connection; `undefined` when it was not redirected. */
function originalDestination(conn: Deno.TcpConn): SocketAddress | undefined {
  const fd = descriptorOf(conn);
  if (fd === undefined) return undefined;
  const isV6 = conn.localAddr.hostname.includes(":");
  // struct sockaddr_in: family, port, address; in sockaddr_in6 the flow precedes the address
  const address = originalAddress(fd, isV6);
  return address && {
    hostname: formatAddress(isV6 ? address.subarray(8, 24) : address.subarray(4, 8)),
    port: address[2] << 8 | address[3],
  };
}

/**
 * Resets a connection (RST), so that its program gets an error instead of a truncated answer. Deno's close
 * always ends it in order, even with SO_LINGER.
 */
function reset(conn: Deno.TcpConn): void {
  const fd = descriptorOf(conn);
  if (fd !== undefined) resetConnection(fd);
  try {
    conn.close();
  } catch {
    // already closed: then there was no descriptor either
  }
}

/**
 * Descriptor of a connection, which Deno stores under a private symbol; the image pins a Deno version that
 * has it.
 */
function descriptorOf(conn: Deno.TcpConn): number | undefined {
  const symbol = Object.getOwnPropertySymbols(conn).find(({ description }) =>
    description === "Deno.internal.fd"
  );
  const fd = symbol && (conn as unknown as Record<symbol, unknown>)[symbol];
  return typeof fd === "number" ? fd : undefined;
}

/** An empty note: no stream has this number. It shows the host which connection is for notes. */
const NOTHING: Note = { t: "End", stream: 0, bytes: 0 };

/** Connection for notes to the host about streams and refused packets, and for refusals of the host. */
export class Notes {
  #channel?: Promise<FrameChannel>;
  /** called for a stream that policy refuses */
  onBlocked: (blocked: StreamBlocked) => void = () => {};

  /** Opens the connection, if it is not open. */
  open(): void {
    if (!this.#channel) this.send(NOTHING).catch(ignore("the next note connects again"));
  }

  /** @throws {Error} the host is not reachable; the next note connects again */
  async send(note: Note): Promise<void> {
    const channel = this.#channel ??= this.#connect();
    try {
      await (await channel).send(note);
    } catch (error) {
      this.#lose(channel);
      throw error;
    }
  }

  #connect(): Promise<FrameChannel> {
    const channel = connectHost(PORTS.tcp).then((conn) => new FrameChannel(conn));
    this.#receive(channel).catch(ignore("the next note connects again")).finally(() => this.#lose(channel));
    return channel;
  }

  async #receive(opening: Promise<FrameChannel>): Promise<void> {
    const { reader } = await opening;
    for await (const frame of reader) this.onBlocked(frame as StreamBlocked);
  }

  #lose(channel: Promise<FrameChannel>): void {
    if (this.#channel === channel) this.#channel = undefined;
  }
}
