/** The network of one guest: its TCP connections end here, and each goes to the reader of its protocol. */
import { canonicalHost, isAddress } from "../base/address/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { type EventProcess, processOf } from "../event/mod.ts";
import { TCP_STREAMS_MAX } from "../machine/guest/wire/mod.ts";
import { type Decision, type Draft, type Gate, guestLine, type Refusal } from "../policy/mod.ts";
import { BufferedConnection, type ByteStream, DeadlineWatch } from "./connection.ts";
import { closeQuietly } from "../base/wire/mod.ts";
import { plain } from "../base/print/mod.ts";
import { BufferBudget } from "./exchange/body_buffer.ts";
import type { ExchangeContext } from "./exchange/context.ts";
import { connectDraft } from "./exchange/draft.ts";
import { agrees, type Flow, formatAuthority, type Requester } from "./exchange/request.ts";
import { fetchDocument, type HostRequest, sendFromHost } from "./exchange/host.ts";
import { ConnectionLost, MessageFault } from "./fault.ts";
import { GuestHttp } from "./guest/http.ts";
import { beginsHttp2, GuestHttp2, Http2Room } from "./guest/http2/mod.ts";
import type { GuestHttpOptions } from "./guest/request.ts";
import { type ClientHello, parseHello, recognize } from "./guest/sniff.ts";
import { HTTP2_ALPN, HTTP_ALPN, Terminator } from "./guest/terminator.ts";
import { answerableOf, Tunnel, type TunnelEnd } from "./guest/tunnel.ts";
import { type NetTimeouts, TIMEOUTS } from "./limit.ts";
import { DatabaseProxy } from "./database/mod.ts";
import { formatDisconnect, SshProxy } from "./ssh/mod.ts";
import { Pool } from "./upstream/pool.ts";
import type { DialAddress, TcpConnector } from "./upstream/upstream.ts";
import type { Ca } from "./ca/mod.ts";
import type { CachePort, CredentialPort, DatabaseAccount, ModelPort, NamePort } from "./interface/mod.ts";

/** Fields of the first frame of a guest's TCP stream (docs/design/contracts/07-guest-wire.md §7). */
export interface TcpOpen {
  /** destination address */
  host_ip: string;
  port: number;
  process_name: string;
  pid: number;
  container?: EventProcess["container"];
}

/**
 * The network of one guest (docs/design/contracts/05-policy.md §5, "Network path"): every TCP connection of
 * the guest ends here, and is recorded as events before any of its bytes go out.
 */
export class NetProxy {
  readonly #options: NetOptions;
  readonly #gate: Gate;
  readonly #timeouts: NetTimeouts;
  readonly #watch = new DeadlineWatch();
  readonly #terminator: Terminator;
  readonly #http2Room = new Http2Room();
  readonly #context: ExchangeContext;
  readonly #tunnel: Tunnel;
  readonly #databases: DatabaseProxy;
  readonly #databaseTls: Terminator;
  readonly #ssh: SshProxy;
  /** connections for documents that vouch for artefacts of the cache */
  #documents?: Pool;
  /** open streams of the guest */
  readonly #guests = new Set<ByteStream>();
  #closed = false;

  constructor(options: NetOptions) {
    this.#options = options;
    this.#gate = options.gate;
    this.#timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#terminator = new Terminator(options.ca, this.#hasHttp2 ? HTTP2_ALPN : HTTP_ALPN);
    const makePool = () => new Pool(this.#watch, this.#timeouts, options.caCerts ?? [], options.connect);
    const context: ExchangeContext = {
      gate: options.gate,
      broker: options.broker,
      ...(options.models && { models: options.models }),
      pool: makePool(),
      locate: (host, port, address, actor) => this.#locate(host, port, address, actor),
      timeouts: this.#timeouts,
      relayMs: this.#timeouts.relay,
      closeMs: this.#timeouts.close,
      lingerMs: this.#timeouts.linger,
      budget: new BufferBudget(this.#timeouts.buffer),
      recordsMessages: options.recordsMessages === true,
      ...(options.grpcTypes && { grpcTypes: options.grpcTypes }),
    };
    if (options.cache) {
      // A guest that makes an upstream answer out of step on its own connections
      // reaches no document of the host's.
      const documents = { ...context, pool: this.#documents = makePool() };
      context.cache = { port: options.cache, document: (url, max) => fetchDocument(documents, url, max) };
    }
    this.#context = context;
    this.#tunnel = new Tunnel(this.#context);
    this.#databases = new DatabaseProxy(this.#context);
    this.#databaseTls = new Terminator(options.ca, DATABASE_ALPN);
    this.#ssh = new SshProxy(this.#context, options.ca);
  }

  /** Number of open connections of the guest and to upstreams. */
  get size(): { guests: number; upstreams: number } {
    return { guests: this.#guests.size, upstreams: this.#context.pool.size };
  }

  /**
   * Serves one TCP stream of the guest until it ends. Faults of the guest or an upstream are handled here.
   *
   * @param conn the vsock stream after its first frame
   * @param rest bytes already read after that frame
   * @throws {SbxError} `ledger.unavailable`, and other failures of this host; the stream is closed
   */
  async serve(
    conn: ByteStream,
    { host_ip, port, process_name, pid, container }: TcpOpen,
    rest: Uint8Array,
  ): Promise<void> {
    const by = requesterOf(process_name, pid, container);
    const address = isAddress(host_ip) ? canonicalHost(host_ip) : undefined;
    if (address === undefined) {
      // The frames are checked where they are read; this host must not look up an address that a guest sends.
      closeQuietly(conn);
      throw new SbxError("net.address.invalid", "a guest opened a stream to an invalid address");
    }
    const flow: Flow = { scheme: "http", address, port };
    if (this.#closed) return closeQuietly(conn);
    if (this.#guests.size >= TCP_STREAMS_MAX) {
      closeQuietly(conn);
      this.#refuse(
        by,
        flow,
        "guard-connections",
        `the VM has ${TCP_STREAMS_MAX} open connections, the limit`,
      );
      return;
    }
    this.#guests.add(conn);
    try {
      await this.#serveStream(new BufferedConnection(conn, this.#watch, rest), conn, flow, by);
    } finally {
      this.#guests.delete(conn);
      closeQuietly(conn);
    }
  }

  /**
   * Sends a request of the host, on the guest's path and under its rules (actor `host`). Redirects are not
   * followed: each is another request.
   *
   * @throws {RequestBlocked} policy blocks the request or its response
   * @throws {SbxError} `request.invalid`, `request.cancelled`, `upstream.failed`, `upstream.timeout`,
   * `credential.denied`, `net.closed`
   */
  async send(request: HostRequest): Promise<Response> {
    if (this.#closed) throw new SbxError("net.closed", "the VM's network is closed");
    return await sendFromHost(this.#context, request);
  }

  /**
   * Records a packet that the guest's kernel refused: only TCP connections and DNS may leave a VM.
   *
   * @param packets number of packets that it stands for
   * @throws {SbxError} `ledger.unavailable`
   */
  refuseTransport(packet: RefusedPacket, packets: number): void {
    const by = requesterOf(packet.process_name, packet.pid, packet.container);
    this.#gate.refuse(transportDraft(by, packet), transportRefusal(packet, packets));
  }

  /** Opens new connections to upstreams for requests from now on; exchanges under way continue. */
  renew(): void {
    this.#context.pool.renew();
    this.#documents?.renew();
  }

  /** Closes every connection. */
  close(): void {
    this.#closed = true;
    this.#terminator.close();
    this.#databaseTls.close();
    this.#context.pool.close();
    this.#documents?.close();
    for (const conn of this.#guests) closeQuietly(conn);
  }

  async #serveStream(
    connection: BufferedConnection,
    conn: ByteStream,
    flow: Flow,
    by: Requester,
  ): Promise<void> {
    try {
      const host = this.#hostOf(flow);
      const accounts = this.#options.broker.databases?.(host, flow.port) ?? [];
      if (accounts.length > 0) return await this.#serveDatabase(connection, conn, flow, by, accounts);
      const sshAccounts = this.#options.broker.sshAccounts?.(host, flow.port) ?? [];
      if (sshAccounts.length > 0) {
        const client = { connection, flow, by, host, accounts: sshAccounts };
        return await sendRefusal(conn, await this.#ssh.serve(client));
      }
      let protocol = await recognize(connection, flow.port, this.#timeouts);
      if (protocol === "other") protocol = await this.#serveRaw(connection, conn, flow, by);
      if (protocol === "tls") await this.#serveTls(connection, conn, flow, by);
      else if (protocol === "http") await this.#serveAnyHttp(connection, flow, by);
      else if (protocol === "late") await this.#http(connection, flow, by).refuseSlowHead();
    } finally {
      connection.close();
    }
  }

  /** Serves a connection to a database that the host logs in to. */
  async #serveDatabase(
    connection: BufferedConnection,
    conn: ByteStream,
    flow: Flow,
    by: Requester,
    accounts: readonly DatabaseAccount[],
  ): Promise<void> {
    const host = this.#hostOf(flow);
    let tls: DatabaseTls | undefined;
    connection.deadline.set(this.#timeouts.head);
    try {
      const refused = await this.#databases.serve({
        connection,
        flow,
        by,
        host,
        accounts,
        acceptTls: async (client) => {
          tls = await this.#acceptDatabaseTls(client, conn, flow, by, host);
          return tls?.connection;
        },
      });
      if (!tls) await sendRefusal(conn, refused);
    } finally {
      if (tls) {
        tls.connection.close();
        await this.#drain(tls.drained, tls.close);
      }
    }
  }

  /** Terminates TLS for the client of a database. */
  async #acceptDatabaseTls(
    client: BufferedConnection,
    conn: ByteStream,
    flow: Flow,
    by: Requester,
    host: string,
  ): Promise<DatabaseTls | undefined> {
    const hello = await this.#readHello(client);
    if (!hello) return undefined;
    const inside: Flow = { ...flow, scheme: "https", ...hello };
    if (hello.name !== undefined && hello.name !== host) {
      this.#refuse(
        by,
        inside,
        "guard-domain-fronting",
        `the TLS handshake names ${hello.name}, and the address is ${host}`,
      );
      return undefined;
    }
    const { inside: stream, drained, close } = await this.#databaseTls.accept(
      conn,
      client.detach(),
      hello.name,
      flow.address,
    );
    const connection = new BufferedConnection(stream, this.#watch);
    connection.deadline.set(this.#timeouts.handshake);
    connection.onTimeout = close;
    try {
      await stream.handshake();
    } catch {
      this.#recordHandshake(inside, by, DISTRUST);
      close();
      return undefined;
    }
    connection.onTimeout = undefined;
    connection.deadline.set(this.#timeouts.head);
    return { connection, drained, close };
  }

  /** Waits for the last bytes on their way to a guest, which may not read them. */
  async #drain(drained: Promise<void>, close: () => void): Promise<void> {
    const deadline = this.#watch.add(close);
    deadline.set(this.#timeouts.head);
    await drained;
    this.#watch.remove(deadline);
    close();
  }

  /** Serves HTTP whose version its first bytes say: HTTP/2 begins with a preface, also without TLS. */
  async #serveAnyHttp(connection: BufferedConnection, flow: Flow, by: Requester): Promise<void> {
    connection.deadline.set(this.#timeouts.head);
    const isHttp2 = this.#hasHttp2 && await beginsHttp2(connection).catch(() => undefined);
    // It is gone, or too slow for the preface that it has begun.
    if (isHttp2 === undefined) return;
    await (isHttp2 ? this.#http2(connection, flow, by) : this.#http(connection, flow, by)).serve();
  }

  #http(connection: BufferedConnection, flow: Flow, by: Requester): GuestHttp {
    return new GuestHttp(connection, this.#guestOptions(flow, by));
  }

  #http2(connection: BufferedConnection, flow: Flow, by: Requester): GuestHttp2 {
    return new GuestHttp2(connection, this.#guestOptions(flow, by), this.#http2Room);
  }

  #guestOptions(flow: Flow, by: Requester): GuestHttpOptions {
    return { context: this.#context, names: this.#options.names, timeouts: this.#timeouts, flow, by };
  }

  get #hasHttp2(): boolean {
    return this.#options.http2 !== false;
  }

  /**
   * Relays another protocol to the host that its rule names: a server name alone proves nothing.
   *
   * @returns the protocol of a client that was silent at first
   */
  async #serveRaw(
    connection: BufferedConnection,
    conn: ByteStream,
    flow: Flow,
    by: Requester,
  ): Promise<TunnelEnd["speaks"]> {
    const host = this.#hostOf(flow);
    if (flow.name === undefined || agrees(host, flow.address, this.#options.names)) {
      const spoken = answerableOf(connection, flow.port);
      const { refused, isUnanswered, speaks } = await this.#tunnel.relayRaw(connection, flow, by, host);
      if (
        refused && isUnanswered && spoken && await this.#answer(spoken, connection, conn, flow, by, refused)
      ) {
        return undefined;
      }
      await sendRefusal(conn, refused);
      return speaks;
    }
    const reason = `the connection goes to ${flow.address}, which no DNS answer of this VM gives for ${host}`;
    await sendRefusal(conn, this.#refuse(by, flow, "guard-domain-fronting", reason));
    return undefined;
  }

  /** Ends a refused connection in the words of its protocol. @returns false: its client got nothing */
  async #answer(
    spoken: NonNullable<ReturnType<typeof answerableOf>>,
    connection: BufferedConnection,
    conn: ByteStream,
    flow: Flow,
    by: Requester,
    decision: Decision,
  ): Promise<boolean> {
    const line = plain(guestLine(decision));
    let tls: DatabaseTls | undefined;
    connection.deadline.set(this.#timeouts.head);
    try {
      if (spoken === "ssh") await connection.write(formatDisconnect(line));
      else {
        const isAnswered = await this.#databases.refuse(spoken, connection, line, async (client) => {
          // Inside TLS there is no second one.
          tls = flow.scheme === "https"
            ? undefined
            : await this.#acceptDatabaseTls(client, conn, flow, by, this.#hostOf(flow));
          return tls?.connection;
        });
        if (!isAnswered) return false;
      }
      if (tls) return true;
      connection.deadline.set(this.#timeouts.close);
      await finishRead(connection);
      return true;
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      return true;
    } finally {
      if (tls) {
        tls.connection.close();
        await this.#drain(tls.drained, tls.close);
      }
    }
  }

  /** Terminates TLS, unless a rule passes the host uninspected. */
  async #serveTls(
    connection: BufferedConnection,
    conn: ByteStream,
    flow: Flow,
    by: Requester,
  ): Promise<void> {
    let hello: ClientHello | undefined;
    try {
      hello = await this.#readHello(connection);
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      const reason = `the connection cannot be read safely: ${error.reason}`;
      await sendRefusal(conn, this.#refuse(by, flow, "guard-malformed-tls", reason));
    }
    if (!hello) return;
    const inside: Flow = { ...flow, scheme: "https", ...hello };
    const host = this.#hostOf(inside);
    const { allowed, event } = this.#gate.preview(connectDraft(by, "https", host, flow.port, "tls"));
    const isUninspected = allowed && event.http?.request.scheme === "tls" &&
      agrees(host, flow.address, this.#options.names);
    if (isUninspected) {
      const { refused } = await this.#tunnel.relayUninspected(connection, inside, by, host);
      await sendRefusal(conn, refused);
    } else await this.#serveTerminated(connection.detach(), conn, inside, by);
  }

  async #serveTerminated(first: Uint8Array, conn: ByteStream, flow: Flow, by: Requester): Promise<void> {
    const { inside, drained, close } = await this.#terminator.accept(
      conn,
      first,
      flow.name,
      flow.address,
    );
    const connection = new BufferedConnection(inside, this.#watch);
    try {
      const { handshake } = this.#timeouts;
      let isOverdue = false;
      connection.deadline.set(handshake);
      // Closing the decrypted stream alone does not end a handshake.
      connection.onTimeout = () => {
        isOverdue = true;
        close();
      };
      let alpn: string | null;
      try {
        ({ alpnProtocol: alpn } = await inside.handshake());
      } catch {
        const reason = isOverdue
          ? `the client did not complete the TLS handshake within ${handshake / 1000} s`
          : DISTRUST;
        return this.#recordHandshake(flow, by, reason);
      }
      connection.onTimeout = undefined;
      if (alpn === HTTP2_ALPN[0]) return await this.#http2(connection, flow, by).serve();
      // A client that has agreed on HTTP is silent because it is slow, on any port.
      let protocol = await recognize(connection, alpn === null ? flow.port : HTTP_PORT, this.#timeouts);
      if (protocol === "other") protocol = await this.#serveRaw(connection, conn, flow, by);
      // A client that has agreed on another version is held to it.
      if (protocol === "http" && alpn === null) await this.#serveAnyHttp(connection, flow, by);
      else if (protocol === "http" || protocol === "tls") await this.#http(connection, flow, by).serve();
      else if (protocol === "late") await this.#http(connection, flow, by).refuseSlowHead();
    } finally {
      connection.close();
      await this.#drain(drained, close);
    }
  }

  /** Records a TLS handshake that was not completed. */
  #recordHandshake(flow: Flow, by: Requester, error: string): void {
    const draft = connectDraft(by, "https", this.#hostOf(flow), flow.port);
    const common = { ...draft.common, enforceability: "observe_only" as const };
    this.#gate.observe({ ...draft, common }, { error });
  }

  async #readHello(connection: BufferedConnection): Promise<ClientHello | undefined> {
    connection.deadline.set(this.#timeouts.head);
    while (true) {
      const hello = parseHello(connection.unread);
      if (hello) return hello;
      if (!await connection.fill().catch(() => false)) return undefined;
    }
  }

  #hostOf({ name, address }: Flow): string {
    return name ?? this.#options.names.nameOf(address) ?? address;
  }

  async #locate(
    host: string,
    port: number,
    address: string | undefined,
    actor: "vm" | "host",
  ): Promise<DialAddress> {
    const override = this.#options.dialOverride?.(host, port);
    if (override) return { ...override, isOverride: true };
    if (address !== undefined) return { hostname: address, port };
    const [hostname] = await this.#options.names.lookup(host, actor);
    return { hostname, port };
  }

  #refuse(by: Requester, flow: Flow, id: string, reason: string): Decision {
    return this.#gate.refuse(connectDraft(by, "tcp", this.#hostOf(flow), flow.port), { id, reason });
  }
}

/** A client that distrusts this machine's CA: it pins its host's certificate, or has roots of its own. */
const DISTRUST =
  "the client aborted the TLS handshake; if it pins the host's certificate, a rule can pass it uninspected";
/** Protocol that PostgreSQL clients offer from version 17 on. */
const DATABASE_ALPN = ["postgresql"];
/** A port whose clients speak first. */
const HTTP_PORT = 443;

/** A client of a database inside TLS. */
interface DatabaseTls {
  connection: BufferedConnection;
  drained: Promise<void>;
  close(): void;
}

/**
 * Ends the own side and reads on: unread bytes of the client would reset the
 * connection before its answer is read.
 */
async function finishRead(connection: BufferedConnection): Promise<void> {
  await connection.closeWrite();
  do connection.skip(connection.count); while (await connection.fill());
}

/** Sends a guest the reason why policy ends its connection: a program without HTTP gets nothing else. */
async function sendRefusal(conn: ByteStream, decision: Decision | undefined): Promise<void> {
  if (decision) await conn.refuse?.(guestLine(decision));
}

function requesterOf(
  process_name: string,
  pid: number,
  container: EventProcess["container"],
): Requester {
  const process = processOf(process_name, pid, container);
  return { actor: "vm", ...(process && { process }) };
}

/** Parts and settings of the network of one VM. */
export interface NetOptions {
  gate: Gate;
  ca: Ca;
  names: NamePort;
  broker: CredentialPort;
  models?: ModelPort;
  /** absent: the profile shares no cache */
  cache?: CachePort;
  /**
   * Address for a host of `network.upstream_overrides`; `undefined` leaves the
   * address that policy decided on.
   */
  dialOverride?(host: string, port: number): DialAddress | undefined;
  /** PEM; roots for verifying upstreams, in addition to the roots that this process was started with */
  caCerts?: readonly string[];
  /** Opens a connection, such as through a proxy; absent: directly. */
  connect?: TcpConnector;
  timeouts?: Partial<NetTimeouts>;
  /** false: guests get HTTP/1.1 only */
  http2?: boolean;
  /** true: events of WebSockets have their messages */
  recordsMessages?: boolean;
  grpcTypes?: ExchangeContext["grpcTypes"];
}

// Packets outside of TCP connections and DNS: the guest's kernel refuses them.

/** A refused packet, as the guest reports it. */
interface RefusedPacket {
  /** IP protocol number */
  protocol: number;
  /** destination address */
  host_ip: string;
  /** destination port; absent for protocols without ports */
  port?: number;
  process_name: string;
  pid: number;
  container?: EventProcess["container"];
}

/** Event scheme and usual name by IP protocol number. ICMPv6 counts as ICMP. */
const PROTOCOLS: Readonly<Record<number, [scheme: string, name: string]>> = {
  1: ["icmp", "ICMP"],
  6: ["tcp", "TCP outside of a connection"],
  17: ["udp", "UDP"],
  58: ["icmp", "ICMP"],
};

function protocolOf(number: number): [scheme: string, name: string] {
  return PROTOCOLS[number] ?? ["ip", `IP protocol ${number}`];
}

/** Drafts the event of a refused packet, as a connection; port 0 for a protocol without ports. */
function transportDraft(by: Requester, { protocol, host_ip, port }: RefusedPacket): Draft {
  const [scheme] = protocolOf(protocol);
  const host = canonicalHost(host_ip) ?? host_ip;
  const draft = connectDraft(by, scheme, host, port ?? 0);
  if (port === undefined) draft.http!.request.url = `${scheme}://${formatAuthority("http", host, 80)}`;
  return draft;
}

/**
 * @param packets number of packets that the event stands for: above a limit, not every packet gets an event
 */
function transportRefusal({ protocol, host_ip, port }: RefusedPacket, packets: number): Refusal {
  const [, name] = protocolOf(protocol);
  const host = canonicalHost(host_ip) ?? host_ip;
  const destination = port === undefined ? host : `${host} port ${port}`;
  const more = packets > 1 ? `; one of ${packets} in a second, too many for an event each` : "";
  return {
    id: "guard-transport",
    reason: `${name} to ${destination} has no way out of a VM${more}`,
    remedy: "use a TCP connection, or DNS through the VM's resolver",
  };
}
