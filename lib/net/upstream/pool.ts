import { WholeBody } from "../message/body.ts";
import { connect } from "./connect.ts";
import type { Connection } from "../connection.ts";
import { ConnectionLost } from "../fault.ts";
import { Http1Exchange, isIdempotent } from "./http1.ts";
import { Http2Session } from "./http2/mod.ts";
import { IDLE_MAX, IDLE_PER_UPSTREAM_MAX, type Timeouts } from "../limit.ts";
import type { OutgoingRequest, Place, UpstreamAnswer, UpstreamExchange } from "./upstream.ts";
import type { Watch } from "../watch.ts";

/** How often a request goes out to an upstream that refuses it without looking at it. */
const TRIES_MAX = 3;

/** An answer with the exchange that it belongs to. */
export interface Answered {
  answer: UpstreamAnswer;
  exchange: UpstreamExchange;
}

/** Breaks off what is under way, whatever that is just now. */
export class Flight {
  aborted = false;
  #exchange?: UpstreamExchange;

  /** @throws {ConnectionLost} when it is over already */
  enter(exchange: UpstreamExchange): void {
    if (this.aborted) exchange.abort();
    this.#exchange = exchange;
  }

  abort(): void {
    this.aborted = true;
    this.#exchange?.abort();
  }
}

/**
 * Connections to upstreams, kept between requests. They are shared by requests for the same name at the same address
 * only: what policy looked at is where a request goes.
 */
export class Pool {
  readonly #watch: Watch;
  readonly #timeouts: Timeouts;
  readonly #caCerts: readonly string[];
  readonly #idle = new Map<string, Connection[]>();
  readonly #sessions = new Map<string, Http2Session[]>();
  readonly #open = new Set<Connection>();
  #idleCount = 0;
  #closed = false;

  constructor(watch: Watch, timeouts: Timeouts, caCerts: readonly string[]) {
    this.#watch = watch;
    this.#timeouts = timeouts;
    this.#caCerts = caCerts;
  }

  /** Connections that are open. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Sends a request. One that meets a kept connection which the upstream has just closed goes out once more, if that
   * cannot do harm.
   *
   * @throws {SbxError} `upstream.failed` or `upstream.timeout` from connecting
   * @throws {ConnectionLost | MessageFault} what the exchange throws
   */
  async send(place: Place, request: OutgoingRequest, flight: Flight): Promise<Answered> {
    const { body } = request;
    const whole = body instanceof WholeBody ? body.bytes : undefined;
    for (let tries = 1;; tries++) {
      if (whole) request.body = new WholeBody(whole);
      const key = keyOf(place);
      const started = this.#kept(key, request);
      const kept = started !== undefined;
      const exchange = started ?? await this.#begin(key, place, request);
      flight.enter(exchange);
      try {
        return { answer: await exchange.answer, exchange };
      } catch (error) {
        exchange.abort();
        const lost = error instanceof ConnectionLost && !error.timedOut && !exchange.answered;
        const harmless = exchange.refused ? tries < TRIES_MAX : kept && lost && isIdempotent(request.method);
        if (!whole || !harmless || flight.aborted) throw error;
      }
    }
  }

  /** A connection of its own, for protocols that are relayed. @throws {SbxError} */
  async connect(place: Place): Promise<Connection> {
    const { connection } = await this.#connect(place, []);
    return connection;
  }

  close(): void {
    this.#closed = true;
    for (const sessions of this.#sessions.values()) for (const session of sessions) session.close();
    for (const connection of [...this.#open]) connection.close();
  }

  /** An exchange on a connection that is there already. */
  #kept(key: string, request: OutgoingRequest): UpstreamExchange | undefined {
    if (request.upgrade === undefined && this.#sessions.size > 0) {
      const session = this.#sessions.get(key)?.find(({ room }) => room);
      if (session) return session.exchange(request);
    }
    const idle = this.#takeIdle(key);
    return idle && this.#http1(key, idle, request);
  }

  async #begin(key: string, place: Place, request: OutgoingRequest): Promise<UpstreamExchange> {
    // An upgrade is a matter of HTTP/1.1.
    const alpn = request.upgrade === undefined ? ["h2", "http/1.1"] : ["http/1.1"];
    const { connection, protocol } = await this.#connect(place, alpn);
    if (protocol !== "h2") return this.#http1(key, connection, request);
    const session = new Http2Session(connection, this.#timeouts, () => this.#forget(key, session));
    this.#sessions.set(key, [...this.#sessions.get(key) ?? [], session]);
    return session.exchange(request);
  }

  async #connect(place: Place, alpn: string[]) {
    const made = await connect(place, {
      watch: this.#watch,
      timeoutMs: this.#timeouts.connect,
      caCerts: this.#caCerts,
      alpn,
    });
    const { connection } = made;
    if (this.#closed) connection.close();
    else {
      this.#open.add(connection);
      connection.onClose(() => this.#open.delete(connection));
    }
    return made;
  }

  #http1(key: string, connection: Connection, request: OutgoingRequest): Http1Exchange {
    return new Http1Exchange(connection, request, this.#timeouts, (reusable) => {
      if (!reusable || !this.#keep(key, connection)) connection.close();
    });
  }

  #keep(key: string, connection: Connection): boolean {
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

  #takeIdle(key: string): Connection | undefined {
    while (true) {
      const connection = this.#idle.get(key)?.at(-1);
      if (!connection) return undefined;
      this.#drop(key, connection);
      if (connection.closed) continue;
      connection.unlisten();
      return connection;
    }
  }

  #drop(key: string, connection: Connection): void {
    const idle = this.#idle.get(key);
    const at = idle?.lastIndexOf(connection) ?? -1;
    if (at < 0) return;
    idle!.splice(at, 1);
    this.#idleCount--;
    if (idle!.length === 0) this.#idle.delete(key);
  }

  #forget(key: string, session: Http2Session): void {
    const left = (this.#sessions.get(key) ?? []).filter((other) => other !== session);
    if (left.length > 0) this.#sessions.set(key, left);
    else this.#sessions.delete(key);
  }
}

function keyOf({ scheme, host, port, target }: Place): string {
  return [scheme, host, port, target.hostname, target.port].join(" ");
}
