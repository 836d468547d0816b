/** Ports of the host that lead into one VM: opens, closes and lists them (docs/guides/ports.md). */
import { acceptAll } from "../../base/accept/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { closeQuietly, writeAll } from "../../base/wire/mod.ts";
import type { ExecStreams } from "../../machine/guest/mod.ts";
import type { PortRecord } from "./schema.ts";

/** Most ports of a VM that are forwarded (docs/design/contracts/14-limits.md §14). */
export const PORTS_MAX = 32;
/**
 * Most connections to the ports of a VM at once; the guest runs 128 programs
 * for its host, and jobs need some.
 */
export const PORT_CONNECTIONS_MAX = 110;
/** The only address that ports listen on. */
const HOSTNAME = "127.0.0.1";
const CHUNK_BYTES = 64 * 1024;

/** Connects streams to a port of the guest until its side ends. @returns 0 for an end in order */
export type ConnectPort = (port: number, streams: ExecStreams, gone: AbortSignal) => Promise<number>;

/** Who opens or closes a port, for its record. */
export interface PortUser {
  client: string;
  trace_id?: string;
}

/** A port on its way to be opened, or closed. */
export interface PortWork extends PortUser {
  guest_port: number;
  host_port: number;
}

/** Asks the rules about ports, and records them. */
export interface PortRecorder {
  /** @returns the id of its event @throws {SbxError} `policy.blocked`, `ledger.unavailable` */
  opening(work: PortWork): Promise<string>;
  /** @param opened the event of its opening */
  closed(work: PortWork, opened: string): void;
}

interface Forward {
  /** id of the event of its opening */
  event: string;
  listener: Deno.TcpListener;
  connections: Set<Deno.TcpConn>;
}

/** Ports of the host that lead to ports of one VM. They end with its process. */
export class Ports {
  readonly #connect: ConnectPort;
  readonly #recorder: PortRecorder;
  readonly #reserved: () => ReadonlySet<number>;
  readonly #forwards = new Map<number, Forward>();
  /** ports that a person has closed */
  readonly #closed = new Set<number>();
  /** ports that wait for the rules */
  readonly #opening = new Map<number, Promise<PortRecord>>();
  #hasEnded = false;

  /** @param reserved ports of the host that lead nowhere else than to servers of sbx */
  constructor(connect: ConnectPort, recorder: PortRecorder, reserved: () => ReadonlySet<number>) {
    this.#connect = connect;
    this.#recorder = recorder;
    this.#reserved = reserved;
  }

  list(): PortRecord[] {
    return Array.from(this.#forwards, ([guest_port, forward]) => recordOf(guest_port, forward));
  }

  /**
   * Opens a port once the rules allow it, or returns the one that is open.
   *
   * @param hostPort absent: the same as in the guest, or a free one where that is taken
   * @throws {SbxError} `port.conflict`, `port.limit`, `port.reserved`; `policy.blocked`, `ledger.unavailable`
   */
  async open(guestPort: number, user: PortUser, hostPort?: number): Promise<PortRecord> {
    const before = this.#opening.get(guestPort);
    if (before) {
      await before.catch(ignore("a refused one clears the way for the next request"));
      return await this.open(guestPort, user, hostPort);
    }
    const existing = this.#forwards.get(guestPort);
    if (existing) return this.#existing(guestPort, existing, hostPort);
    const opening = this.#open(guestPort, user, hostPort).finally(() => this.#opening.delete(guestPort));
    this.#opening.set(guestPort, opening);
    return await opening;
  }

  async #open(guestPort: number, user: PortUser, hostPort?: number): Promise<PortRecord> {
    if (this.#forwards.size + this.#opening.size >= PORTS_MAX) {
      throw new SbxError("port.limit", `${PORTS_MAX} ports of the VM are forwarded, the limit`, {
        hint: "sbx port NAME PORT --remove ends one",
      });
    }
    const reserved = this.#reserved();
    // Before the rules decide, so that the record has the host's port; it accepts nothing until they have.
    const listener = hostPort ? listen(hostPort, reserved) : listenNear(guestPort, reserved);
    let event: string;
    try {
      event = await this.#recorder.opening({ ...user, guest_port: guestPort, host_port: listener.addr.port });
      if (this.#hasEnded) throw new SbxError("vm.wrong_state", "the VM has ended");
    } catch (error) {
      listener.close();
      throw error;
    }
    const forward: Forward = { event, listener, connections: new Set() };
    this.#forwards.set(guestPort, forward);
    this.#closed.delete(guestPort);
    void this.#serve(guestPort, forward);
    return recordOf(guestPort, forward);
  }

  /**
   * Opens ports on which programs of the guest listen, but none that a person has
   * closed, or that was refused before.
   */
  async offer(guestPorts: readonly number[], user: PortUser): Promise<void> {
    await Promise.all(guestPorts.map(async (port) => {
      if (this.#closed.has(port) || this.#forwards.has(port) || this.#opening.has(port)) return;
      try {
        await this.open(port, user);
      } catch (error) {
        log.debug(`port ${port}: ${error}`);
        // Its guest reports each new port with all of them: a person is asked once.
        if ((error as SbxError).code === "policy.blocked") this.#closed.add(port);
      }
    }));
  }

  /** Ends a port with its connections. @throws {SbxError} `port.not_found` */
  close(guestPort: number, user: PortUser): PortRecord {
    const forward = this.#forwards.get(guestPort);
    if (!forward) {
      throw new SbxError("port.not_found", `port ${guestPort} of the VM is not forwarded`, {
        hint: "sbx port NAME lists the forwarded ports",
      });
    }
    const record = recordOf(guestPort, forward);
    this.#closed.add(guestPort);
    this.#end(guestPort, forward);
    const { host_port } = record;
    this.#recorder.closed({ ...user, guest_port: guestPort, host_port }, forward.event);
    return record;
  }

  /** Ends all, with the VM, whose end is on record. */
  closeAll(): void {
    this.#hasEnded = true;
    for (const [port, forward] of this.#forwards) this.#end(port, forward);
  }

  #end(guestPort: number, { listener, connections }: Forward): void {
    this.#forwards.delete(guestPort);
    listener.close();
    for (const conn of connections) closeQuietly(conn);
  }

  #existing(guestPort: number, forward: Forward, hostPort?: number): PortRecord {
    const record = recordOf(guestPort, forward);
    if (hostPort === undefined || hostPort === record.host_port) return record;
    throw new SbxError(
      "port.conflict",
      `port ${guestPort} of the VM is forwarded from port ${record.host_port}`,
      {
        hint: `remove that first: sbx port NAME ${guestPort} --remove`,
      },
    );
  }

  async #serve(guestPort: number, { listener, connections }: Forward): Promise<void> {
    for await (const conn of acceptAll(listener) as AsyncIterable<Deno.TcpConn>) {
      const all = this.#forwards.values().reduce((sum, forward) => sum + forward.connections.size, 0);
      if (all >= PORT_CONNECTIONS_MAX) {
        closeQuietly(conn);
        continue;
      }
      connections.add(conn);
      this.#relay(guestPort, conn)
        .catch((error) => log.debug(`port ${guestPort}: ${error}`))
        .finally(() => {
          connections.delete(conn);
          closeQuietly(conn);
        });
    }
  }

  /** Relays one connection; an end of one side leaves the other open. */
  async #relay(guestPort: number, conn: Deno.TcpConn): Promise<void> {
    const gone = new AbortController();
    const chunk = new Uint8Array(CHUNK_BYTES);
    const code = await this.#connect(guestPort, {
      async input() {
        const read = await conn.read(chunk).catch(() => undefined);
        // A client that reset its connection takes no answer.
        if (read === undefined) gone.abort();
        return read ? chunk.subarray(0, read).toBase64() : null;
      },
      async output(stream, data) {
        // Notes of sbx, such as a refusal, are not the port's.
        if (stream === "stdout") await writeAll(conn, Uint8Array.fromBase64(data)).catch(() => gone.abort());
      },
    }, gone.signal);
    if (code === 0) await conn.closeWrite().catch(ignore("the client has left"));
  }
}

function recordOf(guest_port: number, { listener, connections }: Forward): PortRecord {
  return { guest_port, host_port: listener.addr.port, connections: connections.size };
}

/** @throws {SbxError} `port.reserved`, `port.conflict` */
function listen(port: number, reserved: ReadonlySet<number>): Deno.TcpListener {
  if (reserved.has(port)) {
    throw new SbxError(
      "port.reserved",
      `port ${port} of this host is kept for the gateway of sbx or sbx-mcp`,
      {
        hint: "name another one, such as 5173:8080",
      },
    );
  }
  try {
    return Deno.listen({ hostname: HOSTNAME, port });
  } catch (cause) {
    throw new SbxError("port.conflict", `port ${port} of this host cannot be listened on`, {
      cause,
      hint: "another program has it, or it is below 1024: name another one, such as 5173:8080",
    });
  }
}

/** The same port as in the guest, or a free one that is not reserved. */
function listenNear(port: number, reserved: ReadonlySet<number>): Deno.TcpListener {
  try {
    return listen(port, reserved);
  } catch {
    const held: Deno.TcpListener[] = [];
    try {
      for (;;) {
        const listener = Deno.listen({ hostname: HOSTNAME, port: 0 });
        if (!reserved.has(listener.addr.port)) return listener;
        held.push(listener);
      }
    } finally {
      for (const listener of held) listener.close();
    }
  }
}
