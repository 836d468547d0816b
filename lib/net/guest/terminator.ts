/**
 * Ends a guest's TLS with a certificate of this machine's CA. Deno ends TLS on TCP listeners only, so the guest's bytes
 * go through a listener on loopback; of all who can reach that port, only this relay is let in.
 */
import type { Ca } from "../../ca/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { ByteStream } from "../connection.ts";
import { closeQuietly, copy } from "../copy.ts";
import { LISTENER_NAMES_MAX } from "../limit.ts";

const ALPN = ["http/1.1"];
/** Listeners for clients that name no server: each has the certificate of one address. */
const ADDRESSES_MAX = 16;
/** Milliseconds to wait when accepting fails. */
const RETRY_MS = 50;

/** TLS that is ended here. */
export interface Terminated {
  /** what the guest says inside; its handshake is not done yet */
  inside: Deno.TlsConn;
  /** settles when all that was written inside has reached the guest, or cannot any more */
  drained: Promise<void>;
  /** closes everything at once */
  close(): void;
}

export class Terminator {
  readonly #ca: Ca;
  #byName?: Loopback;
  readonly #byAddress = new Map<string, Promise<Loopback>>();
  #closed = false;

  constructor(ca: Ca) {
    this.#ca = ca;
  }

  /**
   * Takes a guest's stream over.
   *
   * @param first bytes that were read from it already
   * @param name what the ClientHello names
   * @param address where the guest connects to: whose certificate it gets when it names nothing
   * @throws {SbxError} what making a certificate throws, `net.closed`
   */
  async accept(
    guest: ByteStream,
    first: Uint8Array,
    name: string | undefined,
    address: string,
  ): Promise<Terminated> {
    const loopback = name === undefined ? await this.#ofAddress(address) : await this.#ofName(name);
    if (this.#closed) throw new SbxError("net.closed", "the VM's network is closed");
    const { relay, inside } = await loopback.connect();
    const close = () => {
      for (const stream of [relay, inside, guest]) closeQuietly(stream);
    };
    const inward = writeAll(relay, first).then(() => copy(guest, relay));
    const drained = copy(relay, guest).catch(() => {}).finally(() => closeQuietly(guest));
    inward.catch(() => {
      closeQuietly(relay);
      closeQuietly(inside);
    });
    return { inside, drained, close };
  }

  close(): void {
    this.#closed = true;
    this.#byName?.close();
    for (const loopback of this.#byAddress.values()) loopback.then((open) => open.close(), () => {});
    this.#byAddress.clear();
  }

  async #ofName(name: string): Promise<Loopback> {
    // Signing may fail, and a handshake could not say why.
    await this.#ca.leaf(name);
    if (this.#byName && this.#byName.names.size >= LISTENER_NAMES_MAX && !this.#byName.names.has(name)) {
      // Deno keeps every certificate that a listener ever used; a guest could ask for names without end.
      this.#byName.close();
      this.#byName = undefined;
    }
    this.#byName ??= this.#open();
    this.#byName.names.add(name);
    return this.#byName;
  }

  #open(): Loopback {
    const loopback: Loopback = Loopback.open({
      [Symbol.for("unstableSniResolver")]: (asked: string) => {
        // Only our own relay gets this far, with a hello that was read before.
        if (!loopback.names.has(plainName(asked))) {
          throw new SbxError("net.closed", "nobody asked for this name");
        }
        return this.#ca.leaf(plainName(asked));
      },
    });
    return loopback;
  }

  #ofAddress(address: string): Promise<Loopback> {
    const known = this.#byAddress.get(address);
    if (known) return known;
    if (this.#byAddress.size >= ADDRESSES_MAX) {
      const [oldest, loopback] = this.#byAddress.entries().next().value!;
      this.#byAddress.delete(oldest);
      loopback.then((open) => open.close(), () => {});
    }
    const made = this.#ca.leaf(address).then((leaf) => Loopback.open({ ...leaf }));
    this.#byAddress.set(address, made);
    made.catch(() => this.#byAddress.delete(address));
    return made;
  }
}

/** Deno passes on what the ClientHello says, which `parseHello` has looked at before. */
function plainName(asked: string): string {
  return asked.toLowerCase().replace(/\.$/, "");
}

/** A TLS listener on loopback that knows whom it waits for, by port. */
class Loopback {
  /** names that it has certificates for */
  readonly names = new Set<string>();
  readonly #listener: Deno.TlsListener;
  readonly #port: number;
  readonly #awaited = new Map<number, (conn: Deno.TlsConn) => void>();
  /** came before it was known whether they are ours */
  readonly #strangers = new Map<number, Deno.TlsConn>();
  #connecting = 0;
  /** no more connections are made; those under way are still let in */
  #closing = false;
  #closed = false;

  private constructor(listener: Deno.TlsListener) {
    this.#listener = listener;
    this.#port = (listener.addr as Deno.NetAddr).port;
    this.#accept();
  }

  /** @param certificate fixed, or Deno's resolver by server name */
  static open(certificate: object): Loopback {
    const options = { hostname: "127.0.0.1", port: 0, alpnProtocols: ALPN, ...certificate };
    return new Loopback(Deno.listenTls(options as Deno.ListenTlsOptions & Deno.TlsCertifiedKeyPem));
  }

  /** A pair of ends: what is written to `relay` is TLS of what `inside` reads. */
  async connect(): Promise<{ relay: Deno.TcpConn; inside: Deno.TlsConn }> {
    this.#connecting++;
    let relay: Deno.TcpConn;
    try {
      relay = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    } finally {
      this.#connecting--;
      if (this.#connecting === 0) queueMicrotask(() => this.#turnAway());
    }
    relay.setNoDelay(true);
    const { port } = relay.localAddr as Deno.NetAddr;
    const early = this.#strangers.get(port);
    this.#strangers.delete(port);
    const inside = early ?? await new Promise<Deno.TlsConn>((resolve) => this.#awaited.set(port, resolve));
    return { relay, inside };
  }

  /** Takes no more; what it has accepted goes on. */
  close(): void {
    this.#closing = true;
    if (this.#closed || this.#awaited.size > 0 || this.#connecting > 0) return;
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
        // Out of descriptors, or the other end was quicker: the next one may do better.
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        continue;
      }
      const { port } = conn.remoteAddr as Deno.NetAddr;
      const awaited = this.#awaited.get(port);
      if (awaited) {
        this.#awaited.delete(port);
        awaited(conn);
        if (this.#closing) this.close();
      } else if (this.#connecting > 0) this.#strangers.set(port, conn);
      else closeQuietly(conn);
    }
  }

  /** Nobody of ours is on the way: whoever is left came from elsewhere. */
  #turnAway(): void {
    if (this.#connecting > 0) return;
    for (const conn of this.#strangers.values()) closeQuietly(conn);
    this.#strangers.clear();
  }
}
