/** Connections to upstreams, kept for further requests, and the attempts to open new ones. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import type { BufferedConnection, DeadlineWatch } from "../connection.ts";
import { ConnectionLost } from "../fault.ts";
import { IDLE_MAX, IDLE_PER_UPSTREAM_MAX, type NetTimeouts } from "../limit.ts";
import { AnnouncedBody, WholeBody } from "../message/body.ts";
import { connect, type ConnectOptions, nameOf } from "./connect.ts";
import { Http1Exchange, isIdempotent } from "./http1.ts";
import { Http2Session } from "./http2/mod.ts";
import type {
  OutgoingRequest,
  PinnedDestination,
  TcpConnector,
  UpstreamExchange,
  UpstreamResponse,
} from "./upstream.ts";

/** Most attempts for a request that the upstream refuses without processing it. */
const ATTEMPTS_MAX = 3;

/** A response with its exchange. */
export interface ExchangeReply {
  response: UpstreamResponse;
  exchange: Pick<UpstreamExchange, "done" | "abort">;
}

/** The upstream exchange in flight, which can be aborted at any time. */
export class Flight {
  aborted = false;
  /** something may have been sent */
  begun = false;
  #exchange?: UpstreamExchange;

  /** Sets the exchange in flight; aborts it when the flight was aborted before. */
  enter(exchange: UpstreamExchange): void {
    this.begun = true;
    if (this.aborted) exchange.abort();
    this.#exchange = exchange;
  }

  abort(): void {
    this.aborted = true;
    this.#exchange?.abort();
  }
}

/**
 * Connections to upstreams, reused between requests. Only requests for the same host at the same address
 * share one, so that a request goes to the address that policy decided on.
 */
export class Pool {
  readonly #watch: DeadlineWatch;
  readonly #timeouts: NetTimeouts;
  readonly #caCerts: readonly string[];
  readonly #connectTcp?: TcpConnector;
  readonly #idle = new Map<string, BufferedConnection[]>();
  readonly #sessions = new Map<string, Http2Session[]>();
  readonly #dials = new SharedDials();
  readonly #open = new Set<BufferedConnection>();
  #idleCount = 0;
  #closed = false;

  constructor(
    watch: DeadlineWatch,
    timeouts: NetTimeouts,
    caCerts: readonly string[],
    connectTcp?: TcpConnector,
  ) {
    this.#watch = watch;
    this.#timeouts = timeouts;
    this.#caCerts = caCerts;
    this.#connectTcp = connectTcp;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Sends a request. It is sent again when an idle connection turns out to be closed and
   * the request is idempotent or its body has not been asked for, and when the upstream
   * reports that it has not processed it.
   *
   * @throws {SbxError} `upstream.failed` or `upstream.timeout` from connecting
   * @throws {ConnectionLost | MessageFault} from the exchange
   */
  async send(
    destination: PinnedDestination,
    request: OutgoingRequest,
    flight: Flight,
  ): Promise<ExchangeReply> {
    const { body } = request;
    const whole = body instanceof WholeBody ? body.bytes : undefined;
    for (let attempt = 1;; attempt++) {
      if (whole) request.body = new WholeBody(whole, body.trailers);
      const key = keyOf(destination) + (request.h2c ? " h2c" : "");
      const reused = this.#reuse(key, request);
      const exchange = reused ?? await this.#begin(key, destination, request);
      flight.enter(exchange);
      try {
        return { response: await exchange.response, exchange };
      } catch (error) {
        exchange.abort();
        const wasClosed = error instanceof ConnectionLost && !error.timedOut && !exchange.hasResponded;
        const isHeldBack = body instanceof AnnouncedBody && !body.begun;
        const mayRetry = exchange.refused
          ? attempt < ATTEMPTS_MAX
          : reused !== undefined && wasClosed && (isHeldBack || isIdempotent(request.method));
        if (!(whole || isHeldBack) || !mayRetry || flight.aborted) throw error;
      }
    }
  }

  /** Connects for a relay; the connection is never reused. @throws {SbxError} */
  async connect(
    destination: PinnedDestination,
    beginTls?: ConnectOptions["beginTls"],
  ): Promise<BufferedConnection> {
    const { connection } = await this.#connect(destination, [], beginTls);
    return connection;
  }

  close(): void {
    this.#closed = true;
    for (const sessions of this.#sessions.values()) for (const session of sessions) session.close();
    for (const connection of [...this.#open]) connection.close();
  }

  /**
   * Reuses no connection of now: an upstream or a router may have dropped it
   * without a word while the host slept.
   */
  renew(): void {
    for (const session of [...this.#sessions.values()].flat()) session.retire();
    for (const connection of [...this.#idle.values()].flat()) connection.close();
    this.#idle.clear();
    this.#idleCount = 0;
  }

  /** Begins an exchange on an open connection; `undefined` without one. */
  #reuse(key: string, request: OutgoingRequest): UpstreamExchange | undefined {
    if (request.upgrade === undefined && this.#sessions.size > 0) {
      const session = this.#sessions.get(key)?.find(({ hasRoom }) => hasRoom);
      if (session) return session.exchange(request);
    }
    const idle = this.#takeIdle(key);
    return idle && this.#beginHttp1(key, idle, request);
  }

  async #begin(
    key: string,
    destination: PinnedDestination,
    request: OutgoingRequest,
  ): Promise<UpstreamExchange> {
    // Only HTTP/1.1 has upgrades.
    if (request.upgrade !== undefined || destination.scheme !== "https" && !request.h2c) {
      const { connection } = await this.#connect(destination, ["http/1.1"]);
      return this.#beginHttp1(key, connection, request);
    }
    return await this.#dials.open<BufferedConnection, UpstreamExchange>(
      key,
      () => this.#dial(key, destination, request.h2c === true),
      (dialled) =>
        "session" in dialled
          ? dialled.session.exchange(request)
          : this.#beginHttp1(key, dialled.connection, request),
    );
  }

  async #dial(
    key: string,
    destination: PinnedDestination,
    isKnown: boolean,
  ): Promise<Dialled<BufferedConnection>> {
    const { connection, protocol } = await this.#connect(destination, ["h2", "http/1.1"]);
    if (protocol !== "h2" && !isKnown) return { connection };
    const session = new Http2Session(connection, this.#timeouts, () => this.#forget(key, session));
    // An HTTP/1.1 server may read on behind a preface that it does not know, and take a body for requests.
    if (isKnown && protocol !== "h2") await session.greeted;
    if (!session.hasRoom) {
      throw new SbxError("upstream.failed", `${nameOf(destination)} did not answer in HTTP/2`, {
        hint: "a call of gRPC without TLS needs an HTTP/2 server at that port",
      });
    }
    this.#sessions.set(key, [...this.#sessions.get(key) ?? [], session]);
    return { session };
  }

  async #connect(destination: PinnedDestination, alpn: string[], beginTls?: ConnectOptions["beginTls"]) {
    const connected = await connect(destination, {
      watch: this.#watch,
      timeoutMs: this.#timeouts.connect,
      caCerts: this.#caCerts,
      connectTcp: this.#connectTcp,
      alpn,
      ...(beginTls && { beginTls }),
    });
    const { connection } = connected;
    if (this.#closed) connection.close();
    else {
      this.#open.add(connection);
      connection.onClose(() => this.#open.delete(connection));
    }
    return connected;
  }

  #beginHttp1(key: string, connection: BufferedConnection, request: OutgoingRequest): Http1Exchange {
    return new Http1Exchange(connection, request, this.#timeouts, (reusable) => {
      if (!reusable || !this.#park(key, connection)) connection.close();
    });
  }

  #park(key: string, connection: BufferedConnection): boolean {
    let idle = this.#idle.get(key);
    if (!idle) this.#idle.set(key, idle = []);
    if (this.#closed || idle.length >= IDLE_PER_UPSTREAM_MAX || this.#idleCount >= IDLE_MAX) {
      if (idle.length === 0) this.#idle.delete(key);
      return false;
    }
    idle.push(connection);
    this.#idleCount++;
    connection.deadline.set(this.#timeouts.idle);
    connection.park(() => {
      this.#drop(key, connection);
      connection.close();
    });
    return true;
  }

  #takeIdle(key: string): BufferedConnection | undefined {
    while (true) {
      const connection = this.#idle.get(key)?.at(-1);
      if (!connection) return undefined;
      this.#drop(key, connection);
      // Its next fill, which begins the exchange, ends the callback of park.
      if (!connection.closed) return connection;
    }
  }

  #drop(key: string, connection: BufferedConnection): void {
    const idle = this.#idle.get(key);
    const at = idle?.lastIndexOf(connection) ?? -1;
    if (at < 0) return;
    idle!.splice(at, 1);
    this.#idleCount--;
    if (idle!.length === 0) this.#idle.delete(key);
  }

  #forget(key: string, session: Http2Session): void {
    const remaining = (this.#sessions.get(key) ?? []).filter((other) => other !== session);
    if (remaining.length > 0) this.#sessions.set(key, remaining);
    else this.#sessions.delete(key);
  }
}

function keyOf({ scheme, host, port, dial }: PinnedDestination): string {
  return [scheme, host, port, dial.hostname, dial.port].join(" ");
}

// Connection attempts that several requests wait for: with HTTP/2 one connection takes them all.

/** Most upstreams whose protocol is remembered. */
const KNOWN_MAX = 1024;

/** Result of an attempt: a session for many requests, or a connection for one. */
export type Dialled<T> = { session: Http2Session } | { connection: T };

/** Attempts under way, at most one per upstream that may offer HTTP/2. */
export class SharedDials {
  readonly #pending = new Map<string, Promise<Http2Session | undefined>>();
  /** upstreams that chose HTTP/1.1 the last time: each request has its own attempt */
  readonly #http1 = new Set<string>();

  /**
   * Begins a request on the session of an attempt under way, or else on an attempt of its own.
   *
   * @param begin takes the result at once, before another request can: a session
   * has room for a number of streams
   * @throws {SbxError} the attempt failed
   */
  async open<T, E>(
    key: string,
    attempt: () => Promise<Dialled<T>>,
    begin: (dialled: Dialled<T>) => E,
  ): Promise<E> {
    for (let dial = this.#pending.get(key); dial; dial = this.#pending.get(key)) {
      const session = await dial;
      if (session?.hasRoom) return begin({ session });
      // After a full session the first waiter makes the next attempt, and the others wait for that one.
    }
    return await this.#attempt(key, attempt, begin);
  }

  #attempt<T, E>(
    key: string,
    attempt: () => Promise<Dialled<T>>,
    begin: (dialled: Dialled<T>) => E,
  ): Promise<E> {
    const dialled = attempt();
    if (!this.#http1.has(key)) {
      const shared = dialled.then(sessionOf).finally(() => this.#pending.delete(key));
      shared.catch(ignore("each waiter gets the error, and so does the request of the attempt"));
      this.#pending.set(key, shared);
    }
    return dialled.then((result) => {
      this.#learn(key, "session" in result);
      return begin(result);
    });
  }

  #learn(key: string, isHttp2: boolean): void {
    if (isHttp2) this.#http1.delete(key);
    else if (!this.#http1.has(key)) {
      if (this.#http1.size >= KNOWN_MAX) this.#http1.clear();
      this.#http1.add(key);
    }
  }
}

/** The session of an attempt, once its upstream's settings are known. */
async function sessionOf<T>(result: Dialled<T>): Promise<Http2Session | undefined> {
  if (!("session" in result)) return undefined;
  await result.session.greeted;
  return result.session;
}
