import { SbxError } from "../base/error/mod.ts";
import type { Gate } from "../policy/mod.ts";
import type { Channel } from "./exchange/authority.ts";
import { agrees } from "./exchange/authority.ts";
import { type ByteStream, Connection } from "./connection.ts";
import { closeQuietly } from "./copy.ts";
import { connectDraft, type Requester } from "./exchange/draft.ts";
import type { ExchangeContext } from "./exchange/exchange.ts";
import { MessageFault } from "./fault.ts";
import { GuestHttp } from "./guest/http.ts";
import { type Hello, parseHello } from "./guest/hello.ts";
import { type HostRequest, sendFromHost } from "./exchange/host.ts";
import { CONNECTIONS_MAX, TIMEOUTS, type Timeouts } from "./limit.ts";
import type { NetOptions } from "./options.ts";
import { Pool } from "./upstream/pool.ts";
import { sniff, type Speech } from "./guest/sniff.ts";
import { Terminator } from "./guest/terminator.ts";
import { type RefusedPacket, transportDraft, transportRefusal } from "./guest/transport.ts";
import { Tunnel } from "./guest/tunnel.ts";
import type { Target } from "./upstream/upstream.ts";
import { Watch } from "./watch.ts";

/** The first frame of a guest's TCP stream (contracts.md §7). */
export interface Open {
  /** address that the guest's program connects to */
  host_ip: string;
  port: number;
  process_name: string;
  pid: number;
}

/** Ports on which a client that says nothing is just not done yet: their protocols begin with the client. */
const CLIENT_FIRST = new Set([80, 443]);

/**
 * The network of one guest (spec.md, "Events"; issue 5): every TCP connection that it makes ends here, and what it
 * wants of the world is an event before any of it goes out.
 */
export class NetProxy {
  readonly #options: NetOptions;
  readonly #gate: Gate;
  readonly #timeouts: Timeouts;
  readonly #watch = new Watch();
  readonly #terminator: Terminator;
  readonly #context: ExchangeContext;
  readonly #tunnel: Tunnel;
  readonly #guests = new Set<ByteStream>();
  #closed = false;

  constructor(options: NetOptions) {
    this.#options = options;
    this.#gate = options.gate;
    this.#timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#terminator = new Terminator(options.ca);
    this.#context = {
      gate: options.gate,
      broker: options.broker,
      ...(options.models && { models: options.models }),
      pool: new Pool(this.#watch, this.#timeouts, options.caCerts ?? []),
      locate: (host, port, address, actor) => this.#locate(host, port, address, actor),
      relayMs: this.#timeouts.relay,
      held: { bytes: 0 },
    };
    this.#tunnel = new Tunnel(this.#context);
  }

  /** Connections that are open: of guests, and to upstreams. */
  get size(): { guests: number; upstreams: number } {
    return { guests: this.#guests.size, upstreams: this.#context.pool.size };
  }

  /**
   * Serves one TCP stream of the guest until it ends; never throws for what the guest or an upstream does.
   *
   * @param conn the vsock stream behind its first frame
   * @param rest bytes that were read from it behind that frame
   * @throws {SbxError} `ledger.unavailable` and other failures of this host; the stream is closed
   */
  async serve(conn: ByteStream, { host_ip, port, process_name, pid }: Open, rest: Uint8Array): Promise<void> {
    const by = requesterOf(process_name, pid);
    const channel: Channel = { scheme: "http", address: host_ip, port };
    if (this.#closed) return closeQuietly(conn);
    if (this.#guests.size >= CONNECTIONS_MAX) {
      closeQuietly(conn);
      this.#refuse(by, channel, "guard-connections", `the VM has ${CONNECTIONS_MAX} connections open`);
      return;
    }
    this.#guests.add(conn);
    try {
      await this.#stream(new Connection(conn, this.#watch, rest), conn, channel, by);
    } finally {
      this.#guests.delete(conn);
      closeQuietly(conn);
    }
  }

  /**
   * Makes a request of the host's own, on the same path and under the same rules as a guest's (actor `host`). Redirects
   * are not followed: where they lead is another request.
   *
   * @throws {NetBlocked} what policy refuses
   * @throws {SbxError} `request.invalid`, `upstream.failed`, `upstream.timeout`, `credential.denied`
   */
  async send(request: HostRequest): Promise<Response> {
    if (this.#closed) throw new SbxError("net.closed", "the VM's network is closed");
    return await sendFromHost(this.#context, request);
  }

  /**
   * Records a packet that the guest's kernel refused: only TCP connections and DNS have a way out.
   *
   * @param among how many packets this one stands for
   * @throws {SbxError} `ledger.unavailable`
   */
  refuseTransport(packet: RefusedPacket, among: number): void {
    const by = requesterOf(packet.process_name, packet.pid);
    this.#gate.refuse(transportDraft(by, packet), transportRefusal(packet, among));
  }

  /** Closes every connection. */
  close(): void {
    this.#closed = true;
    this.#terminator.close();
    this.#context.pool.close();
    for (const conn of this.#guests) closeQuietly(conn);
  }

  async #stream(connection: Connection, conn: ByteStream, channel: Channel, by: Requester): Promise<void> {
    try {
      const speech = await this.#sniff(connection, channel);
      if (speech === "tls") await this.#tls(connection, conn, channel, by);
      else if (speech === "http") await this.#http(connection, channel, by);
      else if (speech === "other") await this.#tunnel.raw(connection, channel, by, this.#hostOf(channel));
    } finally {
      connection.close();
    }
  }

  #http(connection: Connection, channel: Channel, by: Requester): Promise<void> {
    const { names } = this.#options;
    return new GuestHttp(connection, { context: this.#context, names, timeouts: this.#timeouts, channel, by })
      .serve();
  }

  /** TLS is looked into, unless a rule says of its host that it is let through. */
  async #tls(connection: Connection, conn: ByteStream, channel: Channel, by: Requester): Promise<void> {
    let hello: Hello | undefined;
    try {
      hello = await this.#hello(connection);
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      this.#refuse(
        by,
        channel,
        "guard-malformed-tls",
        `the connection cannot be read safely: ${error.reason}`,
      );
    }
    if (!hello) return;
    const inside: Channel = { ...channel, scheme: "https", ...hello };
    const host = this.#hostOf(inside);
    const { allowed, event } = this.#gate.preview(connectDraft(by, "https", host, channel.port));
    const through = allowed && event.http?.request.scheme === "tls" &&
      agrees(host, channel.address, this.#options.names);
    if (through) await this.#tunnel.uninspected(connection, inside, by, host);
    else await this.#terminated(connection.detach(), conn, inside, by);
  }

  async #terminated(first: Uint8Array, conn: ByteStream, channel: Channel, by: Requester): Promise<void> {
    const { inside, drained, close } = await this.#terminator.accept(
      conn,
      first,
      channel.name,
      channel.address,
    );
    const connection = new Connection(inside, this.#watch);
    try {
      connection.deadline.set(this.#timeouts.head);
      try {
        await inside.handshake();
      } catch {
        return this.#unwanted(channel, by);
      }
      const speech = await this.#sniff(connection, channel);
      if (speech === "http" || speech === "tls") await this.#http(connection, channel, by);
      else if (speech === "other") await this.#tunnel.raw(connection, channel, by, this.#hostOf(channel));
    } finally {
      connection.close();
      // The last bytes are still on their way to the guest, which may not take them.
      const late = this.#watch.add(close);
      late.set(this.#timeouts.head);
      await drained;
      this.#watch.remove(late);
      close();
    }
  }

  /** A client that does not trust this machine's CA: it has pinned its host's certificate, or has trust of its own. */
  #unwanted(channel: Channel, by: Requester): void {
    const draft = connectDraft(by, "https", this.#hostOf(channel), channel.port);
    const event = this.#gate.observe({
      ...draft,
      common: { ...draft.common, enforceability: "observe_only" },
    });
    this.#gate.finish(event, {
      error:
        "the client broke off the TLS handshake; if it pins the host's certificate, a rule can let it through",
    });
  }

  async #hello(connection: Connection): Promise<Hello | undefined> {
    connection.deadline.set(this.#timeouts.head);
    while (true) {
      const hello = parseHello(connection.waiting);
      if (hello) return hello;
      if (!await connection.fill().catch(() => false)) return undefined;
    }
  }

  /** What the client speaks; `undefined` when it is gone. Who waits for the server to begin is not HTTP. */
  async #sniff(connection: Connection, { port }: Channel): Promise<Exclude<Speech, "more"> | undefined> {
    const { silence, head, keepAlive } = this.#timeouts;
    const silent = Promise.withResolvers<"silent">();
    if (connection.count === 0 && !CLIENT_FIRST.has(port)) {
      connection.deadline.set(silence);
      connection.late = () => silent.resolve("silent");
    } else connection.deadline.set(connection.count === 0 ? keepAlive : head);
    while (true) {
      const speech = sniff(connection.waiting);
      if (speech !== "more") {
        connection.late = undefined;
        return speech;
      }
      const more = await Promise.race([connection.ahead().catch(() => false), silent.promise]);
      if (more === "silent") return "other";
      if (!more || !await connection.fill().catch(() => false)) return undefined;
      connection.late = undefined;
      connection.deadline.set(head);
    }
  }

  #hostOf({ name, address }: Channel): string {
    return name ?? this.#options.names.nameOf(address) ?? address;
  }

  #locate(
    host: string,
    port: number,
    address: string | undefined,
    actor: "vm" | "host",
  ): Target | Promise<Target> {
    const elsewhere = this.#options.target?.(host, port);
    if (elsewhere) return elsewhere;
    if (address !== undefined) return { hostname: address, port };
    return this.#options.names.lookup(host, actor).then(([hostname]) => ({ hostname, port }));
  }

  #refuse(by: Requester, channel: Channel, id: string, reason: string): void {
    this.#gate.refuse(connectDraft(by, "tcp", this.#hostOf(channel), channel.port), { id, reason });
  }
}

function requesterOf(process_name: string, pid: number): Requester {
  const process = { pid, ppid: 0, executable: process_name, command: process_name, cwd: "" };
  return { actor: "vm", ...(process_name !== "" && { process }) };
}
