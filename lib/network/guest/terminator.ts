/**
 * Terminates a guest's TLS with a certificate of this machine's CA. Deno terminates TLS on TCP
 * listeners only, so the guest's bytes pass through a listener on loopback, which accepts
 * connections of this process only.
 */
import { sendAtOnce } from "../../../ffi/host/no_delay.ts";
import { canonicalHost } from "../../base/address/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { closeQuietly, writeAll } from "../../base/wire/mod.ts";
import type { Ca } from "../ca/mod.ts";
import type { ByteStream } from "../connection.ts";
import { LISTENER_NAMES_MAX } from "../limit.ts";

/** An HTTP/1.0 client offers that alone, as `curl --http1.0` does. */
export const HTTP_ALPN: readonly string[] = ["http/1.1", "http/1.0"];
/** With HTTP/2, which is taken where the client offers it. */
export const HTTP2_ALPN: readonly string[] = ["h2", ...HTTP_ALPN];
/** Most listeners for clients without a server name: each has the certificate of one address. */
const ADDRESSES_MAX = 16;
/** Delay in `ms` after a failed accept. */
const RETRY_MS = 50;

/** A terminated TLS connection. */
export interface TerminatedTls {
  /** the decrypted stream; its handshake is still to be done */
  inside: Deno.TlsConn;
  /** settles when everything written inside has reached the guest, or no longer can */
  drained: Promise<void>;
  /** closes everything at once */
  close(): void;
}

/** Terminates the TLS of one guest. */
export class Terminator {
  readonly #ca: Ca;
  readonly #alpn: readonly string[];
  #byName?: Loopback;
  readonly #byAddress = new Map<string, Promise<Loopback>>();
  #closed = false;

  /** @param alpn protocols for clients that offer any */
  constructor(ca: Ca, alpn = HTTP_ALPN) {
    this.#ca = ca;
    this.#alpn = alpn;
  }

  /**
   * Takes over a guest's stream.
   *
   * @param first bytes already read from it
   * @param name server name of the ClientHello
   * @param address destination address; names the certificate when there is no server name
   * @throws {SbxError} `net.closed`, and errors of making a certificate
   */
  async accept(
    guest: ByteStream,
    first: Uint8Array,
    name: string | undefined,
    address: string,
  ): Promise<TerminatedTls> {
    const loopback = name === undefined ? await this.#openForAddress(address) : await this.#openForName(name);
    const endTurn = name === undefined ? undefined : await loopback.turn(name);
    if (this.#closed) {
      endTurn?.();
      throw new SbxError("net.closed", "the VM's network is closed");
    }
    const { relay, inside } = await loopback.connect().catch((error) => {
      endTurn?.();
      throw error;
    });
    const close = () => {
      for (const stream of [relay, inside, guest]) closeQuietly(stream);
    };
    const inward = writeAll(relay, first).then(() => copy(guest, relay));
    const drained = copy(relay, guest).catch(ignore("either side has left, which ends the connection"))
      .finally(() => {
        closeQuietly(guest);
        endTurn?.();
      });
    inward.catch(() => {
      closeQuietly(relay);
      closeQuietly(inside);
    });
    return { inside, drained, close };
  }

  close(): void {
    this.#closed = true;
    this.#byName?.close();
    for (const opening of this.#byAddress.values()) opening.then((loopback) => loopback.close(), () => {});
    this.#byAddress.clear();
  }

  async #openForName(name: string): Promise<Loopback> {
    // Signs before the handshake, which could not report a failure.
    await this.#ca.leaf(name);
    if (this.#byName && this.#byName.names.size >= LISTENER_NAMES_MAX && !this.#byName.names.has(name)) {
      // Deno keeps every certificate that a listener used, and a guest could name endless servers.
      this.#byName.close();
      this.#byName = undefined;
    }
    this.#byName ??= this.#open();
    this.#byName.names.add(name);
    return this.#byName;
  }

  #open(): Loopback {
    const loopback: Loopback = Loopback.open(this.#alpn, {
      [Symbol.for("unstableSniResolver")]: async (serverName: string) => {
        const name = canonicalHost(serverName) ?? "";
        // Only our relay gets this far, with a ClientHello that was parsed before.
        if (!loopback.names.has(name)) throw new SbxError("net.closed", "unknown server name");
        const leaf = await this.#ca.leaf(name);
        // In a later task: Deno has taken the certificate then.
        setTimeout(() => loopback.hold(name), 0);
        return leaf;
      },
    });
    return loopback;
  }

  #openForAddress(address: string): Promise<Loopback> {
    const existing = this.#byAddress.get(address);
    if (existing) return existing;
    if (this.#byAddress.size >= ADDRESSES_MAX) {
      const [oldest, opening] = this.#byAddress.entries().next().value!;
      this.#byAddress.delete(oldest);
      opening.then((loopback) => loopback.close(), () => {});
    }
    const loopback = this.#ca.leaf(address).then((leaf) => Loopback.open(this.#alpn, { ...leaf }));
    this.#byAddress.set(address, loopback);
    loopback.catch(() => this.#byAddress.delete(address));
    return loopback;
  }
}

/**
 * Text of an end of a connection: on loopback other users have addresses of their own, with the same ports.
 */
function endOf(addr: Deno.Addr): string {
  const { hostname, port } = addr as Deno.NetAddr;
  return `${hostname} ${port}`;
}

/**
 * A TLS listener on loopback. Recognizes its own connections by the address and port of their other end,
 * which are unique while they are open; Deno serves TLS neither on a socket pair nor behind a secret.
 */
class Loopback {
  /** server names that it serves */
  readonly names = new Set<string>();
  /** names whose certificates Deno holds */
  readonly #held = new Set<string>();
  /** connections that are the first to ask for the certificate of a name */
  readonly #first = new Map<string, PromiseWithResolvers<void>>();
  readonly #listener: Deno.TlsListener;
  readonly #port: number;
  readonly #waiters = new Map<string, (conn: Deno.TlsConn) => void>();
  /** accepted before the local end of our connection was known, by that end */
  readonly #unmatched = new Map<string, Deno.TlsConn>();
  #connecting = 0;
  /** takes no new connections; connections in progress are still accepted */
  #closing = false;
  #closed = false;

  private constructor(listener: Deno.TlsListener) {
    this.#listener = listener;
    this.#port = (listener.addr as Deno.NetAddr).port;
    this.#accept();
  }

  /** @param certificate a certificate and key, or Deno's resolver by server name */
  static open(alpn: readonly string[], certificate: object): Loopback {
    const options = { hostname: "127.0.0.1", port: 0, alpnProtocols: [...alpn], ...certificate };
    const listener = Deno.listenTls(options as Deno.ListenTlsOptions & Deno.TlsCertifiedKeyPem);
    sendAtOnce(listener.addr as Deno.NetAddr);
    return new Loopback(listener);
  }

  /**
   * Waits while another connection is the first to ask for the certificate of a name: Deno fails the
   * handshakes of some that ask for the same one at once.
   *
   * @returns ends the turn of the first connection, when it ends without having asked
   */
  async turn(name: string): Promise<(() => void) | undefined> {
    for (let first = this.#first.get(name); first; first = this.#first.get(name)) await first.promise;
    if (this.#held.has(name)) return undefined;
    const turn = Promise.withResolvers<void>();
    this.#first.set(name, turn);
    return () => {
      if (this.#first.get(name) === turn) this.#first.delete(name);
      turn.resolve();
    };
  }

  /** Notes that Deno holds the certificate of a name. */
  hold(name: string): void {
    this.#held.add(name);
    this.#first.get(name)?.resolve();
    this.#first.delete(name);
  }

  /** Connects both ends: TLS written to `relay` is read decrypted from `inside`. */
  async connect(): Promise<{ relay: Deno.TcpConn; inside: Deno.TlsConn }> {
    this.#connecting++;
    let relay: Deno.TcpConn;
    try {
      relay = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    } finally {
      this.#connecting--;
      if (this.#connecting === 0) queueMicrotask(() => this.#closeUnmatched());
    }
    relay.setNoDelay(true);
    const end = endOf(relay.localAddr);
    const early = this.#unmatched.get(end);
    this.#unmatched.delete(end);
    const inside = early ?? await new Promise<Deno.TlsConn>((resolve) => this.#waiters.set(end, resolve));
    return { relay, inside };
  }

  /** Accepts no more connections; accepted ones continue. */
  close(): void {
    this.#closing = true;
    if (this.#closed || this.#waiters.size > 0 || this.#connecting > 0) return;
    this.#closed = true;
    this.#listener.close();
  }

  async #accept(): Promise<void> {
    while (true) {
      let conn: Deno.TlsConn;
      try {
        conn = await this.#listener.accept();
      } catch {
        if (this.#closed) return;
        // Out of descriptors, or the peer is gone already: the next accept may succeed.
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        continue;
      }
      const end = endOf(conn.remoteAddr);
      const resolve = this.#waiters.get(end);
      if (resolve) {
        this.#waiters.delete(end);
        resolve(conn);
        if (this.#closing) this.close();
      } else if (this.#connecting > 0) this.#unmatched.set(end, conn);
      else closeQuietly(conn);
    }
  }

  /** Closes connections of other processes, once none of our own is in progress. */
  #closeUnmatched(): void {
    if (this.#connecting > 0) return;
    for (const conn of this.#unmatched.values()) closeQuietly(conn);
    this.#unmatched.clear();
  }
}

const SMALL = 4 * 1024;
const LARGE = 128 * 1024;

/**
 * Copies one way until the end, and closes the other side's writing end. The buffer grows with the reads, so
 * that quiet connections cost little.
 *
 * @param moved called with the number of bytes, after they were written
 */
export async function copy(from: ByteStream, to: ByteStream, moved?: (count: number) => void): Promise<void> {
  let buffer = new Uint8Array(SMALL);
  while (true) {
    const count = await from.read(buffer);
    if (count === null) break;
    const piece = count === buffer.length ? buffer : buffer.subarray(0, count);
    const written = await to.write(piece);
    if (written < count) await writeAll(to, piece.subarray(written));
    if (piece === buffer && count < LARGE) buffer = new Uint8Array(count * 4 > LARGE ? LARGE : count * 4);
    moved?.(count);
  }
  await to.closeWrite?.().catch(ignore("the other side has closed the stream"));
}
