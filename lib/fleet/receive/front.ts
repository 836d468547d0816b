/**
 * A receiver's port. HTTP is served at a socket behind it, and bytes are passed on: so connections are
 * counted, and when all places are taken, the one that has waited longest for an answer is closed. A sender
 * that only holds connections open locks no one out.
 */
import { join } from "node:path";
import { ignore } from "../../base/error/mod.ts";
import { acceptAll } from "../../base/accept/mod.ts";
import { addressBytes, formatAddress } from "../../base/address/mod.ts";
import { backgroundInterval, timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/**
 * Limits of connections at once: in all, and from one address, or IPv6 network, that is not this machine's
 * (docs/design/contracts/14-limits.md §14).
 */
export const CONNECTIONS_MAX = 512, CONNECTIONS_PER_ADDRESS_MAX = 32;
/** Time in `ms` without a byte in either direction after which a connection ends. */
const IDLE_MS = timeLimit(60_000);
/** Time for a TLS handshake, in `ms`. */
const HANDSHAKE_MS = timeLimit(10_000);
/** Interval at which connections are looked at, in `ms`. */
const LOOK_MS = 1000;
const CHUNK = 64 * 1024;

interface Passage {
  readonly address: string;
  /** when it last got a byte of an answer, or began */
  answeredAt: number;
  /** when a byte last went either way */
  movedAt: number;
  end(): void;
}

/** Where a server listens; without `tls` in plain text. */
export interface Place {
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
}

/** A server that listens. */
export interface FleetServer {
  readonly addr: Deno.NetAddr;
  readonly finished: Promise<void>;
  /** Takes no more requests, and resolves when the accepted ones are answered. */
  shutdown(): Promise<void>;
}

/**
 * Serves HTTP behind a {@linkcode Front} until it is shut down: only this user's
 * programs reach the server itself.
 */
export async function serveBehindFront(
  { hostname, port, tls }: Place,
  answer: (request: Request) => Response | Promise<Response>,
): Promise<FleetServer> {
  const folder = await Deno.makeTempDir({ prefix: "sbx-fleet-" });
  const path = join(folder, "http.sock");
  const server = Deno.serve({ path, onListen() {} }, answer);
  let front: Front;
  try {
    front = new Front(
      tls
        ? Deno.listenTls({ hostname, port, ...tls, alpnProtocols: ["http/1.1"] })
        : Deno.listen({ hostname, port }),
      path,
    );
  } catch (error) {
    await server.shutdown();
    await Deno.remove(folder, { recursive: true });
    throw error;
  }
  const finished = server.finished.then(async () => {
    front.end();
    await Deno.remove(folder, { recursive: true }).catch(
      ignore("an empty folder of the system's temporary ones stays"),
    );
  });
  return {
    addr: front.addr,
    finished,
    shutdown: async () => {
      front.close();
      await server.shutdown();
      await finished;
    },
  };
}

/** Passes connections of a listener on to a Unix socket. */
export class Front {
  readonly #listener: Deno.Listener | Deno.TlsListener;
  readonly #socket: string;
  readonly #passages = new Set<Passage>();
  readonly #look: number;

  /** @param socket path at which HTTP is served */
  constructor(listener: Deno.Listener | Deno.TlsListener, socket: string) {
    this.#listener = listener;
    this.#socket = socket;
    this.#look = backgroundInterval(() => this.#endIdle(), LOOK_MS);
    this.#accept();
  }

  get addr(): Deno.NetAddr {
    return this.#listener.addr as Deno.NetAddr;
  }

  /** Takes no more connections. */
  close(): void {
    clearInterval(this.#look);
    this.#listener.close();
  }

  /** Ends all connections. */
  end(): void {
    for (const passage of this.#passages) passage.end();
  }

  async #accept(): Promise<void> {
    for await (const conn of acceptAll<Deno.Conn>(this.#listener)) this.#pass(conn);
  }

  async #pass(conn: Deno.Conn): Promise<void> {
    const address = senderOf((conn.remoteAddr as Deno.NetAddr).hostname);
    const same = [...this.#passages].filter((passage) => passage.address === address);
    // A proxy before this receiver is one address for all machines.
    const isProxy = /^(127\.|::1$)/.test(address);
    if (!isProxy && same.length >= CONNECTIONS_PER_ADDRESS_MAX) endLongestWaiting(same);
    if (this.#passages.size >= CONNECTIONS_MAX) endLongestWaiting([...this.#passages]);
    let inner: Deno.UnixConn | undefined;
    const now = performance.now();
    const passage: Passage = {
      address,
      answeredAt: now,
      movedAt: now,
      end: () => {
        this.#passages.delete(passage);
        for (const each of [conn, inner]) {
          try {
            each?.close();
          } catch {
            // It is closed already.
          }
        }
      },
    };
    this.#passages.add(passage);
    try {
      if ("handshake" in conn) await handshake(conn as Deno.TlsConn);
      inner = await Deno.connect({ transport: "unix", path: this.#socket });
      await Promise.all([
        copy(conn, inner, () => passage.movedAt = performance.now()),
        copy(inner, conn, () => passage.movedAt = passage.answeredAt = performance.now()),
      ]);
    } catch {
      // Its peer is gone, was too slow, or lost its place.
    } finally {
      passage.end();
    }
  }

  #endIdle(): void {
    const now = performance.now();
    for (const passage of this.#passages) if (now - passage.movedAt > IDLE_MS) passage.end();
  }
}

/**
 * The part of an address that its owner cannot choose: the first 64 bits of IPv6, as an owner has every
 * address behind them.
 */
function senderOf(address: string): string {
  const bytes = addressBytes(address);
  if (bytes?.length !== 16 || address === "::1") return bytes ? formatAddress(bytes) : address;
  return formatAddress(bytes.slice().fill(0, 8));
}

function endLongestWaiting(passages: Passage[]): void {
  passages.reduce((a, b) => a.answeredAt <= b.answeredAt ? a : b).end();
}

async function handshake(conn: Deno.TlsConn): Promise<void> {
  const timer = setTimeout(() => conn.close(), HANDSHAKE_MS);
  try {
    await conn.handshake();
  } finally {
    clearTimeout(timer);
  }
}

async function copy(from: Deno.Conn, to: Deno.Conn, moved: () => void): Promise<void> {
  const buffer = new Uint8Array(CHUNK);
  for (let count = await from.read(buffer); count !== null; count = await from.read(buffer)) {
    await writeAll(to, buffer.subarray(0, count));
    moved();
  }
  await to.closeWrite().catch(ignore("the other side has left"));
}
