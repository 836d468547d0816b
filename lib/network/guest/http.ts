/**
 * HTTP/1.1 on one connection of the guest: each request is an exchange, and an event before it goes anywhere.
 */
import { ignore } from "../../base/error/mod.ts";
import { guestRefusal, type Refusal } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { IncomingRequest } from "../exchange/request.ts";
import { HttpExchange } from "../exchange/exchange.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../fault.ts";
import { HEAD_MAX, REFUSED_BODY_MAX } from "../limit.ts";
import { type BodySource, keepsAlive, requestFraming, WireBody } from "../message/body.ts";
import { headEnd, parseRequestHead, type RequestHead } from "../message/head.ts";
import { headerValue } from "../message/header.ts";
import { GuestOutlet } from "./guest_outlet.ts";
import { grpcReplies } from "./replies.ts";
import {
  type GuestHttpOptions,
  type NamedRequest,
  nameRequest,
  refuseMalformed,
  refuseNamed,
} from "./request.ts";

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
    const { timeouts, context } = this.#options;
    let head: RequestHead | undefined;
    let named: NamedRequest;
    try {
      const bytes = await this.#readHead();
      if (!bytes) return false;
      const headBytes = bytes.length;
      head = parseRequestHead(bytes);
      const body = new WireBody(this.#connection, requestFraming(head), timeouts.body);
      named = nameRequest(this.#options, head, body, headBytes);
    } catch (error) {
      if (error instanceof MessageFault) await this.#refuseMalformed(error, head);
      else if (!(error instanceof ConnectionLost)) throw error;
      return false;
    }
    const { request, refusal } = named;
    const outlet = new GuestOutlet(this.#connection, {
      method: head.method,
      old: head.old,
      alive: keepsAlive(head),
      idleMs: timeouts.body,
      ...grpcReplies(head.headers, timeouts.held),
      accept: headerValue(head.headers, "accept"),
      signal: this.#gone.signal,
      onGone: () => this.#gone.abort(),
      ...(request.expects && { expects: true }),
    });
    if (refusal) {
      await this.#refuseRequest(request, refusal, outlet);
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

  /** Refuses a request by a guard; the connection is closed. */
  async #refuseRequest(request: IncomingRequest, refusal: Refusal, outlet: GuestOutlet): Promise<void> {
    const decision = refuseNamed(this.#options, request, refusal);
    outlet.alive = false;
    await outlet.sendBlock(decision);
    await this.#drain(request.body, outlet);
  }

  /** Refuses a request that cannot be read safely: an event, the status, and the connection is closed. */
  async #refuseMalformed(fault: MessageFault, head: RequestHead | undefined, status = 400): Promise<void> {
    this.#connection.onTimeout = undefined;
    const decision = refuseMalformed(this.#options, head, fault);
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

function headTooLong(): MessageFault {
  return new MessageFault(`the head is longer than ${HEAD_MAX} bytes`);
}
