/** HTTP/1.1 on one connection of the guest: each request is an exchange, and an event before it goes anywhere. */
import { ignore } from "../../base/error/mod.ts";
import {
  METADATA_ADDRESS,
  METADATA_ALIAS,
  METADATA_HOST,
  METADATA_NAME,
  plainHost,
} from "../../base/address/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import { type Decision, guestRefusal, type Refusal } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { connectDraft, httpDraft, NO_HTTP_BODY, rawPathOf } from "../exchange/draft.ts";
import {
  type Authority,
  findMismatch,
  type Flow,
  formatAuthority,
  type IncomingRequest,
  parseAuthority,
  type Requester,
} from "../exchange/request.ts";
import { HttpExchange } from "../exchange/exchange.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../fault.ts";
import { HEAD_MAX, type NetTimeouts, REFUSED_BODY_MAX } from "../limit.ts";
import { type BodySource, keepsAlive, requestFraming, WireBody } from "../message/body.ts";
import { headEnd, parseRequestHead, type RequestHead, splitTarget } from "../message/head.ts";
import { dropHopByHop, dropImitations, headerValue } from "../message/header.ts";
import type { NamePort } from "../interface/mod.ts";
import { EXTENSIONS, upgradeOf } from "../websocket/mod.ts";
import { GuestOutlet } from "./guest_outlet.ts";

export interface GuestHttpOptions {
  context: ExchangeContext;
  names: NamePort;
  timeouts: NetTimeouts;
  flow: Flow;
  by: Requester;
}

/** A parsed request with the host that it names. */
interface NamedRequest {
  request: IncomingRequest;
  authority: Authority;
  /** reason why its path can be read in more than one way; its target is as the guest wrote it */
  fault?: string;
}

/** Serves one connection until it ends. */
export class GuestHttp {
  readonly #connection: BufferedConnection;
  readonly #options: GuestHttpOptions;
  readonly #gone = new AbortController();

  constructor(connection: BufferedConnection, options: GuestHttpOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  async serve(): Promise<void> {
    try {
      while (await this.#serveNext());
    } catch (error) {
      // A lost client gets no answer.
      if (!(error instanceof ClientLost || error instanceof ConnectionLost)) throw error;
    } finally {
      this.#gone.abort();
      this.#connection.close();
    }
  }

  /** Serves one request, or refuses it. @returns true when another may follow */
  async #serveNext(): Promise<boolean> {
    const { flow, names, timeouts, context } = this.#options;
    let head: RequestHead | undefined;
    let named: NamedRequest;
    try {
      const bytes = await this.#readHead();
      if (!bytes) return false;
      const headBytes = bytes.length;
      head = parseRequestHead(bytes);
      const body = new WireBody(this.#connection, requestFraming(head), timeouts.body);
      named = this.#nameRequest(head, body, headBytes);
    } catch (error) {
      if (error instanceof MessageFault) await this.#refuseMalformed(error, head);
      else if (!(error instanceof ConnectionLost)) throw error;
      return false;
    }
    const { authority, fault } = named;
    const isMetadata = namesMetadata(flow, authority) && context.broker.servesMetadata?.() === true;
    // The record names who answers, and no address is left to connect to.
    const request = isMetadata
      ? { ...named.request, host: METADATA_HOST, address: undefined }
      : named.request;
    const outlet = new GuestOutlet(this.#connection, {
      method: head.method,
      old: head.old,
      alive: keepsAlive(head),
      idleMs: timeouts.body,
      heldMs: timeouts.held,
      accept: headerValue(head.headers, "accept"),
      signal: this.#gone.signal,
      onGone: () => this.#gone.abort(),
      ...(request.expects && { expects: true }),
    });
    const mismatch = isMetadata ? undefined : findMismatch(flow, authority, names);
    if (mismatch !== undefined || fault !== undefined) {
      await this.#refuseRequest(
        request,
        mismatch === undefined ? pathRefusal(fault!) : frontingRefusal(mismatch),
        outlet,
      );
      return false;
    }
    try {
      await new HttpExchange(context, request, outlet).run();
    } catch (error) {
      if (!(error instanceof ClientLost && error.cause instanceof MessageFault)) throw error;
      if (!outlet.begun) await this.#refuseMalformed(error.cause, head);
      return false;
    }
    if (!outlet.alive && !outlet.isAwaited) return false;
    return (request.body.done || await this.#drain(request.body, outlet)) && outlet.alive;
  }

  /** Reads the bytes of the next head; `undefined` when the guest sends no more requests. */
  async #readHead(): Promise<Uint8Array | undefined> {
    const connection = this.#connection;
    connection.shrink();
    connection.deadline.set(this.#options.timeouts.keepAlive);
    // Some clients send a line break after a body (RFC 9112 §2.2).
    while (connection.count === 0 || connection.unread[0] === 13 && connection.unread[1] === 10) {
      if (connection.count > 0) connection.skip(2);
      else if (!await connection.fill()) return undefined;
    }
    let end = headEnd(connection.unread);
    if (end < 0) {
      // One deadline for the whole head, however slowly its bytes arrive.
      connection.deadline.set(this.#options.timeouts.head);
      connection.onTimeout = () => void this.refuseSlowHead();
      while (end < 0) {
        if (connection.count > HEAD_MAX) throw headTooLong();
        if (!await connection.fill()) throw new ConnectionLost("closed the connection within a head");
        end = headEnd(connection.unread);
      }
      connection.onTimeout = undefined;
    }
    if (end > HEAD_MAX) throw headTooLong();
    connection.deadline.off();
    const bytes = connection.unread.subarray(0, end);
    connection.skip(end);
    return bytes;
  }

  /** @throws {MessageFault} for an invalid host or target */
  #nameRequest(head: RequestHead, body: WireBody, headBytes: number): NamedRequest {
    const { flow, by } = this.#options;
    const authority = this.#authorityOf(head);
    const upgrade = upgradeOf(head, !body.done);
    const { kept, imitated } = dropImitations(head.headers);
    const target = originForm(head, authority, flow);
    const { path } = splitTarget(target);
    const canonical = path === "*" ? { path } : canonicalPath(path);
    const isChanged = canonical.path !== undefined && canonical.path !== path;
    const request: IncomingRequest = {
      by,
      scheme: flow.scheme,
      host: authority.host,
      port: flow.port,
      address: flow.address,
      method: head.method,
      target: isChanged ? canonical.path + target.slice(path.length) : target,
      ...(isChanged && { rawPath: path }),
      headers: dropHopByHop(kept).filter(([name]) => name !== "host" && name !== EXTENSIONS),
      ...(imitated.length > 0 && { imitated }),
      body,
      headBytes,
      trailers: head.headers.some(([name, value]) => name === "te" && /(^|[ ,])trailers/i.test(value)),
      ...(upgrade !== undefined && { upgrade }),
      // Bytes that are here already need no `100 Continue` (RFC 9110 §10.1.1).
      ...(expectsContinue(head) && !body.done && !body.ready && { expects: true }),
    };
    return { request, authority, ...(canonical.fault !== undefined && { fault: canonical.fault }) };
  }

  /** Host that a request names; for HTTP/1.0 without a Host header, the connection's. @throws {MessageFault} */
  #authorityOf({ old, headers }: RequestHead): Authority {
    const { flow, names } = this.#options;
    const hosts = headers.filter(([name]) => name === "host");
    if (hosts.length > 1) throw new MessageFault("more than one Host header");
    if (hosts.length === 0 && !old) throw new MessageFault("missing Host header");
    const text = hosts[0]?.[1] ??
      formatAuthority(flow.scheme, flow.name ?? names.nameOf(flow.address) ?? flow.address, flow.port);
    const authority = parseAuthority(text);
    if (!authority) throw new MessageFault("invalid Host header");
    return authority;
  }

  /** Refuses a request by a guard; the connection is closed. */
  async #refuseRequest(request: IncomingRequest, refusal: Refusal, outlet: GuestOutlet): Promise<void> {
    const { context: { gate, broker }, flow, by } = this.#options;
    const { host, target, headBytes } = request;
    const captured = broker.capture(host, [[":path", target], ...request.headers]).headers;
    const { rawPath: _, ...rest } = request;
    const rawPath = rawPathOf(request, { target: captured[0][1] }, (text) => broker.scrub(text));
    const draft = httpDraft(by, {
      ...rest,
      ...(rawPath !== undefined && { rawPath }),
      target: captured[0][1],
      headers: [["host", formatAuthority(flow.scheme, host, flow.port)], ...captured.slice(1)],
      bytes: headBytes,
      body: NO_HTTP_BODY,
    });
    const decision = gate.refuse(draft, refusal);
    outlet.alive = false;
    await outlet.sendBlock(decision);
    await this.#drain(request.body, outlet);
  }

  /** Refuses a request that cannot be read safely: an event, the status, and the connection is closed. */
  async #refuseMalformed(
    { reason }: MessageFault,
    head: RequestHead | undefined,
    status = 400,
  ): Promise<void> {
    this.#connection.onTimeout = undefined;
    const decision = this.#refuse(head, {
      id: "guard-malformed-http",
      reason: `the request cannot be read safely: ${reason}`,
      remedy: "send the request as RFC 9112 requires",
    });
    const outlet = new GuestOutlet(this.#connection, {
      method: head?.method ?? "",
      old: false,
      alive: false,
      idleMs: this.#options.timeouts.head,
      signal: this.#gone.signal,
      onGone: () => {},
    });
    await outlet.sendJson(status, guestRefusal(decision));
    await this.#connection.closeWrite();
  }

  /** Refuses a head that is incomplete after its time, and closes the connection. */
  async refuseSlowHead(): Promise<void> {
    const reason = `the head was incomplete after ${this.#options.timeouts.head} ms`;
    await this.#refuseMalformed(new MessageFault(reason), undefined, 408).catch(ignore("the guest has left"));
    this.#connection.close();
  }

  #refuse(head: RequestHead | undefined, refusal: Refusal): Decision {
    const { context: { gate }, flow, by, names } = this.#options;
    const host = flow.name ?? names.nameOf(flow.address) ?? flow.address;
    const draft = connectDraft(by, flow.scheme, host, flow.port);
    // The method is the only part of the request that is safe to record.
    draft.http!.request.method = head?.method ?? "";
    return gate.refuse(draft, refusal);
  }

  /** Reads and drops the rest of a body, so that the client reads the response. @returns true at its end */
  async #drain(body: BodySource, outlet: GuestOutlet): Promise<boolean> {
    // A client that was not asked for its body closes the connection then, or has begun to send it unasked.
    if (outlet.isAwaited) await this.#connection.closeWrite();
    let drained = 0;
    while (!body.done && drained < REFUSED_BODY_MAX) {
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
}

/** True for a request to the metadata server of a cloud, by its address; a name at another address is none. */
function namesMetadata({ scheme, address, port }: Flow, authority: Authority): boolean {
  if (scheme !== "http" || port !== 80 || (authority.port ?? 80) !== 80) return false;
  const isNamed = plainHost(authority.host) === METADATA_NAME;
  return address === METADATA_ADDRESS
    ? isNamed || authority.host === METADATA_ADDRESS
    : address === METADATA_ALIAS && isNamed;
}

function frontingRefusal(reason: string): Refusal {
  return {
    id: "guard-domain-fronting",
    reason,
    remedy: "look the name up again, and connect to its address",
  };
}

function pathRefusal(fault: string): Refusal {
  return {
    id: "guard-ambiguous-path",
    reason: `servers read the path of the request in different ways: ${fault}`,
    remedy: "send the path in the form of RFC 3986, without it",
  };
}

function expectsContinue({ headers, old }: RequestHead): boolean {
  return !old && headers.some(([name, value]) => name === "expect" && value.toLowerCase() === "100-continue");
}

/** Path and query of a request target, which may be a whole URL (RFC 9112 §3.2). @throws {MessageFault} */
function originForm({ method, target }: RequestHead, { host, port }: Authority, flow: Flow): string {
  // A tunnel through an upstream would hide its requests, in any form of its target.
  if (method === "CONNECT") throw new MessageFault("a CONNECT request: connect to the host itself");
  if (target.startsWith("/") || target === "*" && method === "OPTIONS") return target;
  const [, scheme, authority, path] = /^(https?):\/\/([^/?]+)([/?].*)?$/i.exec(target) ?? [];
  const inTarget = authority === undefined ? undefined : parseAuthority(authority);
  if (!inTarget) throw new MessageFault("invalid request target");
  if (scheme.toLowerCase() !== flow.scheme) throw new MessageFault("another scheme in the request target");
  if (inTarget.host !== host || inTarget.port !== port) {
    throw new MessageFault("another host in the request target than in the Host header");
  }
  return path === undefined ? "/" : path.startsWith("?") ? `/${path}` : path;
}

function headTooLong(): MessageFault {
  return new MessageFault(`the head is longer than ${HEAD_MAX} bytes`);
}
