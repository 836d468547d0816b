/** HTTP/1.1 with one guest's connection: request after request, each of them an event before it goes anywhere. */
import type { Refusal, Verdict } from "../../policy/mod.ts";
import {
  type Authority,
  authorityText,
  type Channel,
  disagreement,
  parseAuthority,
} from "../exchange/authority.ts";
import { type BodySource, WireBody } from "../message/body.ts";
import type { Connection } from "../connection.ts";
import { connectDraft, httpDraft, NO_HTTP_BODY, type Requester } from "../exchange/draft.ts";
import { Exchange, type ExchangeContext } from "../exchange/exchange.ts";
import type { Incoming } from "../exchange/incoming.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../fault.ts";
import { keepsAlive, requestFraming } from "../message/framing.ts";
import { GuestOutlet } from "./outlet.ts";
import { headEnd, parseRequestHead, type RequestHead } from "../message/head.ts";
import { endToEnd } from "../message/header.ts";
import { upgradeOf } from "../upstream/http1.ts";
import { DRAIN_MAX, HEAD_MAX, type Timeouts } from "../limit.ts";
import type { Names } from "../port/names.ts";

export interface GuestHttpOptions {
  context: ExchangeContext;
  names: Names;
  timeouts: Timeouts;
  channel: Channel;
  by: Requester;
}

/** Serves one connection until it ends. */
export class GuestHttp {
  readonly #connection: Connection;
  readonly #options: GuestHttpOptions;
  readonly #gone = new AbortController();

  constructor(connection: Connection, options: GuestHttpOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  async serve(): Promise<void> {
    try {
      while (await this.#next());
    } catch (error) {
      // Nobody is there to be told.
      if (!(error instanceof ClientLost || error instanceof ConnectionLost)) throw error;
    } finally {
      this.#gone.abort();
      this.#connection.close();
    }
  }

  /** One request. @returns whether there may be another */
  async #next(): Promise<boolean> {
    let head: RequestHead | undefined;
    let body: WireBody;
    let headBytes: number;
    try {
      const bytes = await this.#readHead();
      if (!bytes) return false;
      headBytes = bytes.length;
      head = parseRequestHead(bytes);
      body = new WireBody(this.#connection, requestFraming(head), this.#options.timeouts.body);
    } catch (error) {
      if (error instanceof MessageFault) await this.#malformed(error, head);
      else if (!(error instanceof ConnectionLost)) throw error;
      return false;
    }
    const outlet = new GuestOutlet(this.#connection, {
      method: head.method,
      old: head.old,
      alive: keepsAlive(head),
      idleMs: this.#options.timeouts.body,
      signal: this.#gone.signal,
      gone: () => this.#gone.abort(),
    });
    const incoming = this.#incoming(head, body, headBytes, outlet);
    if (incoming instanceof Promise) {
      await incoming;
      return false;
    }
    try {
      if (expectsContinue(head) && !body.done) await this.#connection.write(CONTINUE);
      await new Exchange(this.#options.context, incoming, outlet).run();
    } catch (error) {
      if (!(error instanceof ClientLost && error.cause instanceof MessageFault)) throw error;
      if (!outlet.begun) await this.#malformed(error.cause, head);
      return false;
    }
    return outlet.alive && (body.done || await this.#drain(body));
  }

  /** The bytes of the next head; `undefined` when the guest has no more requests. */
  async #readHead(): Promise<Uint8Array | undefined> {
    const connection = this.#connection;
    connection.shrink();
    connection.deadline.set(this.#options.timeouts.keepAlive);
    // Some clients put a line break behind a body (RFC 9112 §2.2).
    while (connection.count === 0 || connection.waiting[0] === 13 && connection.waiting[1] === 10) {
      if (connection.count > 0) connection.skip(2);
      else if (!await connection.fill()) return undefined;
    }
    let end = headEnd(connection.waiting);
    if (end < 0) {
      // The whole head has to be here in time, however its bytes drip.
      connection.deadline.set(this.#options.timeouts.head);
      connection.late = () => this.#tooSlow();
      while (end < 0) {
        if (connection.count > HEAD_MAX) throw new MessageFault(`its head is longer than ${HEAD_MAX} bytes`);
        if (!await connection.fill()) throw new ConnectionLost("closed the connection within a head");
        end = headEnd(connection.waiting);
      }
      connection.late = undefined;
    }
    if (end > HEAD_MAX) throw new MessageFault(`its head is longer than ${HEAD_MAX} bytes`);
    connection.deadline.off();
    const bytes = connection.waiting.subarray(0, end);
    connection.skip(end);
    return bytes;
  }

  /** The request that a head makes; a promise when it was refused, which settles when the client has been told. */
  #incoming(
    head: RequestHead,
    body: WireBody,
    headBytes: number,
    outlet: GuestOutlet,
  ): Incoming | Promise<void> {
    const { channel, names, by } = this.#options;
    let named: { authority: Authority; target: string };
    try {
      named = this.#named(head);
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      return this.#malformed(error, head);
    }
    const { authority: { host }, target } = named;
    const upgrade = upgradeOf(head.headers);
    const incoming: Incoming = {
      by,
      scheme: channel.scheme,
      host,
      port: channel.port,
      address: channel.address,
      method: head.method,
      target,
      headers: endToEnd(head.headers).filter(([name]) => name !== "host"),
      body,
      headBytes,
      trailers: head.headers.some(([name, value]) => name === "te" && /(^|[ ,])trailers/i.test(value)),
      ...(upgrade !== undefined && { upgrade }),
    };
    const why = disagreement(channel, named.authority, names);
    return why === undefined ? incoming : this.#fronting(incoming, why, outlet);
  }

  /** Refuses a request that goes elsewhere than it says. */
  async #fronting(incoming: Incoming, reason: string, outlet: GuestOutlet): Promise<void> {
    const { context: { gate, broker }, channel, by } = this.#options;
    const { host, target, headBytes } = incoming;
    const captured = broker.capture(host, [[":path", target], ...incoming.headers]).headers;
    const draft = httpDraft(by, {
      ...incoming,
      target: captured[0][1],
      headers: [["host", authorityText(channel.scheme, host, channel.port)], ...captured.slice(1)],
      bytes: headBytes,
      body: NO_HTTP_BODY,
    });
    const { decision } = gate.refuse(draft, {
      id: "guard-domain-fronting",
      reason,
      remedy: "look the name up again, and connect to the address that it has",
    });
    outlet.alive = false;
    await outlet.blocked(decision);
    await this.#drain(incoming.body);
  }

  /** Whom a request names, and what it asks of it. @throws {MessageFault} */
  #named({ method, target, old, headers }: RequestHead): { authority: Authority; target: string } {
    const { channel, names } = this.#options;
    const hosts = headers.filter(([name]) => name === "host");
    if (hosts.length > 1) throw new MessageFault("it names its host more than once");
    if (hosts.length === 0 && !old) throw new MessageFault("it does not name its host");
    const said = hosts[0]?.[1] ??
      hostText(channel.name ?? names.nameOf(channel.address) ?? channel.address, channel);
    const authority = parseAuthority(said);
    if (!authority) throw new MessageFault("its host is none");
    if (target.startsWith("/") || target === "*" && method === "OPTIONS") return { authority, target };
    const [, scheme, whole, path] = /^(https?):\/\/([^/?]+)([/?].*)?$/i.exec(target) ?? [];
    const inTarget = whole === undefined ? undefined : parseAuthority(whole);
    if (!inTarget) throw new MessageFault("its target is no path");
    if (scheme.toLowerCase() !== channel.scheme) throw new MessageFault("its target is of another scheme");
    if (inTarget.host !== authority.host || inTarget.port !== authority.port) {
      throw new MessageFault("its target names another host than its host field");
    }
    return { authority, target: path === undefined ? "/" : path.startsWith("?") ? `/${path}` : path };
  }

  /** Takes the rest of a body that nobody wanted, so that the client gets to read the answer. */
  async #drain(body: BodySource): Promise<boolean> {
    let drained = 0;
    while (!body.done && drained < DRAIN_MAX) {
      let piece: Uint8Array | null;
      try {
        piece = await body.read();
      } catch {
        return false;
      }
      drained += piece?.length ?? 0;
    }
    return body.done;
  }

  #tooSlow(): void {
    const reason = `its head did not come within ${this.#options.timeouts.head} ms`;
    const close = () => this.#connection.close();
    this.#malformed(new MessageFault(reason), undefined).then(close, close);
  }

  /** Refuses what cannot be read safely: an event, 400, and the end of the connection. */
  async #malformed({ reason }: MessageFault, head: RequestHead | undefined): Promise<void> {
    this.#connection.late = undefined;
    const { decision } = this.#refuse(head, {
      id: "guard-malformed-http",
      reason: `the request cannot be read safely: ${reason}`,
      remedy: "send it as RFC 9112 says",
    });
    const outlet = new GuestOutlet(this.#connection, {
      method: head?.method ?? "",
      old: false,
      alive: false,
      idleMs: this.#options.timeouts.head,
      signal: this.#gone.signal,
      gone: () => {},
    });
    await outlet.refused(400, decision);
    await this.#connection.closeWrite();
  }

  #refuse(head: RequestHead | undefined, refusal: Refusal): Verdict {
    const { context: { gate }, channel, by, names } = this.#options;
    const host = channel.name ?? names.nameOf(channel.address) ?? channel.address;
    const draft = connectDraft(by, channel.scheme, host, channel.port);
    // What was read of it may be anything: its method is all that is kept.
    draft.http!.request.method = head?.method ?? "";
    return gate.refuse(draft, refusal);
  }
}

const CONTINUE = new TextEncoder().encode("HTTP/1.1 100 Continue\r\n\r\n");

function expectsContinue({ headers, old }: RequestHead): boolean {
  return !old && headers.some(([name, value]) => name === "expect" && value.toLowerCase() === "100-continue");
}

function hostText(host: string, { scheme, port }: Channel): string {
  return authorityText(scheme, host, port);
}
