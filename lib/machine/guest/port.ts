/** vsock ports on which one guest connects to the host. */
import { acceptAll } from "../../base/accept/mod.ts";
import { removeIfThere } from "../../base/home/mod.ts";
import { backgroundTimeout, timeLimit } from "../../base/time/mod.ts";
import { FrameChannel } from "../../base/wire/mod.ts";
import { vsockPath } from "../vm/mod.ts";

/**
 * Most open connections of a guest on one port (docs/design/contracts/14-limits.md §14); more would be an
 * attack or a bug.
 */
const CONNECTIONS_MAX = 256;
/** Time for a connection to send its first frame, in `ms` (docs/design/contracts/14-limits.md §14). */
const FIRST_FRAME_MS = timeLimit(10_000);
/**
 * Most `bytes` of a first frame, which any program of the guest may send (docs/design/contracts/14-limits.md
 * §14).
 */
const FIRST_FRAME_LIMIT = 4096;
/** Time for the vsock to deliver pending writes before its guest is paused, in `ms`. */
const DRAIN_MS = 20;

/** Limits of one port. */
export interface PortLimits {
  /** most open connections */
  maxConnections?: number;
  /** longest frame, in `bytes` */
  frameLimit?: number;
  /** longest first frame, in `bytes` */
  firstFrameLimit?: number;
  /** longest frame of the host, in `bytes`; default: `frameLimit` */
  sendLimit?: number;
  /** time for the first frame, in `ms` */
  firstFrameMs?: number;
}

/** Listeners and open connections of one guest. */
export class GuestPorts {
  readonly #dir: string;
  readonly #listeners: Deno.Listener[] = [];
  /** settle when the ports are served no more */
  readonly #served: Promise<void>[] = [];
  readonly #connections = new Map<FrameChannel, Deno.Conn>();
  /** settles when the guest runs again; nothing may be written to a paused guest */
  #paused?: PromiseWithResolvers<void>;

  /** @param dir folder of the machine's sockets */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Serves one port until {@linkcode close}; to be called before the machine starts. Any program of the guest
   * may connect: an error of `serve` closes only its own connection. A connection that sends no frame is
   * closed after a time, and before that it makes room for a new one when the port is full, so that silent
   * connections of one program keep no other from the port. A socket that a killed process left is replaced.
   */
  accept(
    port: number,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
    limits: PortLimits = {},
  ): Promise<void> {
    const path = vsockPath(this.#dir, port);
    removeIfThere(path);
    const listener = Deno.listen({ transport: "unix", path });
    this.#listeners.push(listener);
    const served = this.#serve(listener, serve, limits);
    this.#served.push(served.catch(() => {}));
    return served;
  }

  async #serve(
    listener: Deno.Listener,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
    {
      maxConnections = CONNECTIONS_MAX,
      frameLimit,
      firstFrameLimit = FIRST_FRAME_LIMIT,
      sendLimit = frameLimit,
      firstFrameMs = FIRST_FRAME_MS,
    }: PortLimits,
  ): Promise<void> {
    /** open connections of this port, in the order of their arrival */
    const open = new Set<FrameChannel>();
    for await (const conn of acceptAll(listener)) {
      const channel = new FrameChannel(conn, frameLimit, firstFrameLimit, sendLimit);
      if (open.size >= maxConnections) {
        const silent = open.values().find(({ reader }) => !reader.begun);
        if (!silent) {
          channel.close();
          continue;
        }
        open.delete(silent);
        silent.close();
      }
      open.add(channel);
      this.#connections.set(channel, conn);
      if (this.#paused) holdWrites(conn, this.#paused.promise);
      const deadline = backgroundTimeout(() => this.#closeSilent(channel), firstFrameMs);
      serve(channel, conn).catch(() => {}).finally(() => {
        clearTimeout(deadline);
        open.delete(channel);
        this.#connections.delete(channel);
        channel.close();
      });
    }
  }

  /** Closes a connection without a frame; a close is a write too, and waits until the guest runs. */
  async #closeSilent(channel: FrameChannel): Promise<void> {
    await this.#paused?.promise;
    if (!channel.reader.begun) channel.close();
  }

  /**
   * Holds back writes to the guest until {@linkcode release}; to be called before its machine is paused. The
   * thread of vhost-device-vsock ends when it gets bytes for a machine stopped by QEMU.
   */
  async hold(): Promise<void> {
    if (this.#paused) return;
    this.#paused = Promise.withResolvers();
    for (const conn of this.#connections.values()) holdWrites(conn, this.#paused.promise);
    await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
  }

  /** Lets held writes continue; to be called after the machine resumes. */
  release(): void {
    for (const conn of this.#connections.values()) delete (conn as { write?: unknown }).write;
    this.#paused?.resolve();
    this.#paused = undefined;
  }

  /**
   * Ends all connections. A machine that starts in place of this one may listen once this settles: Deno removes a socket
   * when the last accept on it has ended, and would remove the other one's.
   */
  async close(): Promise<void> {
    for (const listener of this.#listeners) listener.close();
    for (const channel of this.#connections.keys()) channel.close();
    await Promise.all(this.#served);
  }
}

/** Shadows the class's `write` with an own property: connections of a running guest pay nothing. */
function holdWrites(conn: Deno.Conn, until: Promise<void>): void {
  const write = conn.write.bind(conn);
  conn.write = async (bytes) => {
    await until;
    return await write(bytes);
  };
}
