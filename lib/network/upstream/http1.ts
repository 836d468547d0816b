/** One HTTP/1.1 exchange on a connection to an upstream. */
import { ignore } from "../../base/error/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { HEAD_MAX, INTERIM_MAX, type NetTimeouts } from "../limit.ts";
import {
  AnnouncedBody,
  type BodySource,
  BodyWriter,
  formatHead,
  keepsAlive,
  responseFraming,
  WholeBody,
  WireBody,
} from "../message/body.ts";
import { headEnd, parseResponseHead, type ResponseHead } from "../message/head.ts";
import { dropHopByHop, headerValue, mayTrail } from "../message/header.ts";
import { agreeWithUpstream, checkAccept, DEFLATE_OFFER, EXTENSIONS } from "../websocket/mod.ts";
import {
  Continuation,
  EXPECT_CONTINUE,
  type OutgoingRequest,
  type UpstreamExchange,
  type UpstreamResponse,
} from "./upstream.ts";

/** An exchange that has the connection to itself. */
export class Http1Exchange implements UpstreamExchange {
  readonly response: Promise<UpstreamResponse>;
  hasResponded = false;
  readonly refused = false;
  readonly #connection: BufferedConnection;
  readonly #timeouts: NetTimeouts;
  readonly #free: (reusable: boolean) => void;
  readonly #continuation?: Continuation;
  #sent = false;
  #alive = false;
  #freed = false;

  /** @param free called once at the end; `reusable` when the connection may serve another request */
  constructor(
    connection: BufferedConnection,
    request: OutgoingRequest,
    timeouts: NetTimeouts,
    free: (reusable: boolean) => void,
  ) {
    this.#connection = connection;
    this.#timeouts = timeouts;
    this.#free = free;
    const { body } = request;
    if (body instanceof WholeBody) {
      // When writing fails, reading gives the reason.
      this.#sendWhole(request, body.bytes);
      this.response = this.#read(request);
    } else {
      if (body instanceof AnnouncedBody) this.#continuation = new Continuation();
      const sending = this.#send(request, body);
      const response = this.#read(request);
      // An error of sending is the better reason; but an upstream may respond
      // before it has the whole request.
      this.response = Promise.race([response, sending.then(() => response)]);
      sending.catch(ignore("the race above gets the error"));
      response.catch(ignore("the race above gets the error")).finally(() =>
        this.#continuation?.settle(false)
      );
    }
    this.response.catch(ignore("the exchange awaits it"));
  }

  done(): void {
    this.#connection.deadline.off();
    this.#end(this.#sent && this.#alive && this.#connection.count === 0 && !this.#connection.closed);
  }

  abort(): void {
    this.#end(false);
  }

  #end(reusable: boolean): void {
    if (this.#freed) return;
    this.#freed = true;
    this.#free(reusable);
  }

  async #sendWhole(request: OutgoingRequest, bytes: Uint8Array): Promise<void> {
    this.#connection.deadline.set(this.#timeouts.body);
    const trailers = request.body.trailers.filter(mayTrail);
    const head = this.#requestHead(request, trailers.length === 0 ? bytes.length : undefined);
    try {
      // Only a chunked body can have trailers.
      if (trailers.length === 0) await this.#connection.writeJoined(head, bytes);
      else {
        const chunk = bytes.length === 0 ? "" : `${bytes.length.toString(16)}\r\n`;
        await this.#connection.writeJoined(
          head + chunk,
          bytes,
          (chunk && "\r\n") + formatHead("0", trailers),
        );
      }
    } catch {
      return;
    }
    this.#sent = true;
    this.#connection.deadline.set(this.#timeouts.response);
  }

  /** @param length of the body in `bytes`, which is written as it is; absent: it is written in chunks */
  #requestHead(
    { method, target, authority, headers, upgrade, trailers, offersDeflate }: OutgoingRequest,
    length: number | undefined,
  ): string {
    const fields = this.#continuation ? [...headers, EXPECT_CONTINUE] : headers;
    let more = "";
    if (length === undefined) more += "transfer-encoding: chunked\r\n";
    else if (length > 0 || METHODS_WITH_BODY.has(method)) more += `content-length: ${length}\r\n`;
    if (upgrade !== undefined) more += `connection: upgrade\r\nupgrade: ${upgrade}\r\n`;
    else if (trailers) more += "connection: te\r\nte: trailers\r\n";
    if (offersDeflate) more += `${EXTENSIONS}: ${DEFLATE_OFFER}\r\n`;
    const first = `${method} ${target} HTTP/1.1\r\nhost: ${authority}`;
    return formatHead(first, fields, more);
  }

  async #send(request: OutgoingRequest, body: BodySource): Promise<void> {
    const { length } = body;
    const writer = new BodyWriter(
      this.#connection,
      this.#requestHead(request, length),
      length === undefined,
      this.#timeouts.body,
    );
    try {
      if (this.#continuation) {
        await writer.flush();
        if (!await this.#continuation.wait(this.#connection.deadline.watch, this.#timeouts.proceed)) return;
      }
      await writer.writeAll(body);
      await writer.end(body.trailers.filter(mayTrail));
    } catch (error) {
      // An upstream may respond and stop reading: then reading succeeds, or fails with the same reason.
      if (error instanceof ConnectionLost) return;
      // The request is incomplete, and must not look complete.
      this.#connection.close();
      throw error;
    }
    this.#sent = true;
    this.#connection.deadline.set(this.#timeouts.response);
  }

  async #read(request: OutgoingRequest): Promise<UpstreamResponse> {
    for (let interim = 0; interim <= INTERIM_MAX; interim++) {
      let head = this.#takeHead();
      while (!head) {
        if (!await this.#connection.fill()) {
          throw new ConnectionLost(this.hasResponded ? CLOSED_WITHIN_HEAD : CLOSED);
        }
        head = this.#takeHead();
      }
      if (head.status === 100) this.#continuation?.settle(true);
      if (head.status === 101) return this.#upgrade(head, request);
      if (head.status < 200) continue;
      const framing = responseFraming(head, request.method);
      this.#alive = keepsAlive(head) && framing !== "close";
      const body = new WireBody(this.#connection, framing, this.#timeouts.body);
      const declared = headerValue(head.headers, "content-length");
      return {
        status: head.status,
        headers: dropHopByHop(head.headers),
        body,
        ...(declared !== undefined && { declared }),
      };
    }
    throw new MessageFault("too many interim responses");
  }

  /** Takes the next head from the connection; `undefined` while it is incomplete. */
  #takeHead(): ResponseHead | undefined {
    const { unread } = this.#connection;
    if (unread.length === 0) return undefined;
    this.hasResponded = true;
    const end = headEnd(unread);
    if (end > HEAD_MAX || end < 0 && unread.length > HEAD_MAX) {
      throw new MessageFault("the response head is too long");
    }
    if (end < 0) return undefined;
    this.#connection.skip(end);
    return parseResponseHead(unread.subarray(0, end));
  }

  #upgrade(head: ResponseHead, { upgrade, headers, offersDeflate }: OutgoingRequest): UpstreamResponse {
    const protocol = headerValue(head.headers, "upgrade");
    if (upgrade === undefined || protocol?.toLowerCase() !== upgrade) {
      throw new MessageFault("a protocol switch that was not requested");
    }
    checkAccept(headers, head.headers);
    const deflate = agreeWithUpstream(head.headers, offersDeflate === true);
    const body = new WireBody(this.#connection, 0, this.#timeouts.body);
    return {
      status: 101,
      headers: dropHopByHop(head.headers),
      body,
      upgraded: this.#connection,
      ...(deflate && { deflate }),
    };
  }
}

const CLOSED = "closed the connection without a response";
const CLOSED_WITHIN_HEAD = "closed the connection within the response head";
/** Methods whose requests state the length of an empty body. */
const METHODS_WITH_BODY = new Set(["POST", "PUT", "PATCH"]);

/** True for methods whose requests may be sent twice (RFC 9110 §9.2.2). */
export function isIdempotent(method: string): boolean {
  return ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].includes(method);
}
