/** Client side of HTTP/2: one request to an upstream, and its response. */
import { ignore } from "../../../base/error/mod.ts";
import type { Deadline } from "../../connection.ts";
import { ConnectionLost, MessageFault } from "../../fault.ts";
import * as h2 from "../../http2/mod.ts";
import { AnnouncedBody } from "../../message/body.ts";
import { INTERIM_MAX, type NetTimeouts, STREAM_WINDOW } from "../../limit.ts";
import { checkFields } from "../../message/head.ts";
import { NO_BYTES } from "../../message/bytes.ts";
import { dropHopByHop, type Header, headerValue, mayTrail } from "../../message/header.ts";
import {
  Continuation,
  EXPECT_CONTINUE,
  type OutgoingRequest,
  type UpstreamExchange,
  type UpstreamResponse,
} from "../upstream.ts";

/** The session that a stream belongs to. */
export interface StreamSession extends h2.SendingPeer {
  readonly timeouts: NetTimeouts;
  deadline(expire: () => void): Deadline;
  /** writes a control frame, without waiting */
  control(bytes: Uint8Array): void;
  forget(stream: Http2Exchange): void;
}

/** One request and its response, as a stream of a session. */
export class Http2Exchange implements UpstreamExchange {
  readonly response: Promise<UpstreamResponse>;
  hasResponded = false;
  refused = false;
  readonly #session: StreamSession;
  readonly #request: OutgoingRequest;
  readonly #deadline: Deadline;
  readonly #sender: h2.StreamSender;
  /** longest wait for bytes in either direction, in `ms` */
  readonly #idleMs: number;
  readonly #settled = Promise.withResolvers<UpstreamResponse>();
  readonly #continuation?: Continuation;
  #body?: h2.Http2Body;
  /** `bytes` read since the last window update */
  #read = 0;
  /** `bytes` that the upstream may still send */
  #granted = STREAM_WINDOW;
  #interim = 0;
  /** the response has no body, whatever the upstream sends */
  #isBodiless = false;
  #sent = false;
  #received = false;
  #ended = false;

  constructor(session: StreamSession, readonly id: number, request: OutgoingRequest) {
    this.#session = session;
    this.#request = request;
    this.response = this.#settled.promise;
    if (request.body instanceof AnnouncedBody) this.#continuation = new Continuation();
    this.response.catch(ignore("the exchange awaits it")).finally(() => this.#continuation?.settle(false));
    this.#deadline = session.deadline(() => this.#abort(new ConnectionLost("was idle for too long", true)));
    this.#idleMs = request.isStream ? session.timeouts.relay : session.timeouts.body;
    this.#sender = new h2.StreamSender(session, id, this.#deadline, this.#idleMs);
  }

  get window(): h2.SendWindow {
    return this.#sender.window;
  }

  begin(): void {
    this.#send().catch((error) => this.#abort(error));
  }

  done(): void {
    this.#close(true);
  }

  abort(): void {
    this.#abort(new ConnectionLost("was closed"));
  }

  /** Receives a header block: the head of a response, or trailers. */
  headers(headers: Header[], last: boolean): void {
    this.#guard(() => {
      this.hasResponded = true;
      checkFields(headers);
      if (this.#body) {
        if (!last) throw new MessageFault("data after the trailers");
        this.#body.end(headers.filter(mayTrail));
        return this.#endReceiving();
      }
      const status = Number(/^[1-9][0-9]{2}$/.exec(headerValue(headers, ":status") ?? "")?.[0]);
      if (Number.isNaN(status) || status === 101) throw new MessageFault("invalid :status");
      if (status < 200) {
        if (last || ++this.#interim > INTERIM_MAX) {
          throw new MessageFault("too many interim responses");
        }
        if (status === 100) this.#continuation?.settle(true);
        return;
      }
      this.#respond(status, headers.filter(([name]) => name[0] !== ":"), last);
    });
  }

  /** @param count `bytes` of the window that the piece takes, with its padding */
  data(piece: Uint8Array, count: number, last: boolean): void {
    this.#guard(() => {
      if (!this.#body) throw new MessageFault("a body before its head");
      this.#granted -= count;
      if (this.#granted < 0) throw new MessageFault("more data than the window allows");
      // A client would read the body of such a response as the next response.
      const isDropped = this.#isBodiless;
      this.#restoreWindow(isDropped ? count : count - piece.length);
      if (!isDropped) this.#body.push(piece);
      if (!last) return;
      this.#body.end([]);
      this.#endReceiving();
    });
  }

  reset(code: number): void {
    if (code === h2.REFUSED_STREAM) return this.refuse();
    // An upstream that has responded may signal that it does not need the rest of the request.
    if (code === h2.NO_ERROR && this.#received) return;
    // Servers made with Node's stream API may send this in place of END_STREAM when
    // they did not read the request.
    if (code === h2.NO_ERROR && this.#body?.isWhole) {
      this.#body.end([]);
      return this.#endReceiving();
    }
    this.hasResponded = true;
    this.fail(new ConnectionLost("reset the stream"));
  }

  /** Resets the stream for a fault of its own frames. */
  fault(error: Error): void {
    this.#abort(error);
  }

  /** The upstream reported that it has not processed the request. */
  refuse(): void {
    this.refused = true;
    this.fail(new ConnectionLost("refused the stream"));
  }

  /** Ends the stream with an error. */
  fail(error: Error): void {
    this.#settled.reject(error);
    this.#body?.fail(error);
    this.#close(false);
  }

  #respond(status: number, headers: Header[], last: boolean): void {
    const declared = headerValue(headers, "content-length");
    const bodiless = this.#isBodiless = this.#request.method === "HEAD" || status === 204 || status === 304;
    const length = bodiless || declared === undefined
      ? undefined
      : Number(/^[0-9]{1,15}$/.exec(declared)?.[0]);
    if (Number.isNaN(length)) throw new MessageFault("content-length is not a number");
    const body = this.#body = new h2.Http2Body(
      bodiless ? 0 : length,
      () => this.#deadline.set(this.#idleMs),
      (count) => this.#restoreWindow(count),
    );
    if (last) {
      body.end([]);
      this.#endReceiving();
    }
    this.#settled.resolve({
      status,
      headers: dropHopByHop(headers),
      body,
      ...(declared !== undefined && { declared }),
    });
  }

  #endReceiving(): void {
    this.#received = true;
    this.#deadline.off();
    if (this.#sent) this.#close(true);
  }

  #restoreWindow(count: number): void {
    this.#read += count;
    if (this.#read < STREAM_WINDOW / 2 || this.#ended) return;
    this.#session.control(h2.numberFrame(h2.WINDOW_UPDATE, this.id, this.#read));
    this.#granted += this.#read;
    this.#read = 0;
  }

  /** Runs a step; its error ends this stream, not the session. */
  #guard(step: () => void): void {
    if (this.#ended || this.#received) return;
    try {
      step();
    } catch (error) {
      this.#abort(error as Error);
    }
  }

  #abort(error: Error): void {
    if (this.#ended) return;
    this.#settled.reject(error);
    this.#body?.fail(error);
    this.#close(true);
  }

  /** @param reset resets a stream with an incomplete side */
  #close(reset: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#deadline.watch.remove(this.#deadline);
    this.#sender.end();
    const isComplete = this.#sent && this.#received;
    if (reset && !isComplete) this.#session.control(h2.numberFrame(h2.RST_STREAM, this.id, h2.CANCEL));
    this.#session.forget(this);
  }

  async #send(): Promise<void> {
    const { method, authority, target, headers, body, trailers, isStream } = this.#request;
    const fields: Header[] = [
      [":method", method],
      [":scheme", this.#request.h2c ? "http" : "https"],
      [":authority", authority],
      [":path", target],
      ...headers,
    ];
    // A server of gRPC that reads no content type takes a POST with it as a call, which rules would not see.
    if (trailers && (isStream || method === "GET")) fields.push(["te", "trailers"]);
    if (body.length !== undefined && body.length > 0) fields.push(["content-length", `${body.length}`]);
    if (this.#continuation) fields.push(EXPECT_CONTINUE);
    // It may end while the head is on its way.
    const isEmpty = body.done;
    await this.#sender.headers(fields, isEmpty);
    if (this.#continuation) {
      const { watch } = this.#deadline;
      if (!await this.#continuation.wait(watch, this.#session.timeouts.proceed)) return;
    }
    if (!isEmpty) {
      for (let piece = await body.read(); piece !== null; piece = await body.read()) {
        await this.#sender.data(piece);
      }
      const trailing = body.trailers.filter(mayTrail);
      if (trailing.length > 0) await this.#sender.headers(trailing, true);
      else await this.#sender.data(NO_BYTES, true);
    }
    this.#sent = true;
    if (this.#received) this.#close(true);
    else if (!this.#body && !this.#ended) this.#deadline.set(this.#session.timeouts.response);
  }
}
