import { ignore } from "../../../base/error/mod.ts";
import type { Deadline } from "../../connection.ts";
import { ConnectionLost, MessageFault } from "../../fault.ts";
import { AnnouncedBody, type BodySource } from "../../message/body.ts";
import { INTERIM_MAX, type NetTimeouts, STREAM_WINDOW } from "../../limit.ts";
import { checkFields } from "../../message/head.ts";
import { dropHopByHop, type Header, headerValue, mayTrail } from "../../message/header.ts";
import {
  Continuation,
  EXPECT_CONTINUE,
  type OutgoingRequest,
  type UpstreamExchange,
  type UpstreamResponse,
} from "../upstream.ts";
import * as h2 from "./frame.ts";
import { encodeHeaders } from "./hpack.ts";
import { ByteBuffer } from "../../message/bytes.ts";

/** The session that a stream belongs to. */
export interface StreamSession {
  readonly window: SendWindow;
  readonly timeouts: NetTimeouts;
  /** window of new streams, in `bytes` */
  readonly initialWindow: number;
  /** longest frame that the peer takes, in `bytes` */
  readonly frameMax: number;
  deadline(expire: () => void): Deadline;
  /** writes after pending writes */
  write(bytes: Uint8Array): Promise<void>;
  /** writes a control frame, without waiting */
  control(bytes: Uint8Array): void;
  forget(stream: Http2Exchange): void;
}

/** One request and its response, as a stream of a session. */
export class Http2Exchange implements UpstreamExchange {
  readonly response: Promise<UpstreamResponse>;
  readonly window: SendWindow;
  hasResponded = false;
  refused = false;
  readonly #session: StreamSession;
  readonly #request: OutgoingRequest;
  readonly #deadline: Deadline;
  readonly #settled = Promise.withResolvers<UpstreamResponse>();
  readonly #continuation?: Continuation;
  #body?: Http2Body;
  /** `bytes` read since the last window update */
  #read = 0;
  /** `bytes` that the upstream may still send */
  #granted = STREAM_WINDOW;
  #interim = 0;
  #sent = false;
  #received = false;
  #ended = false;

  constructor(session: StreamSession, readonly id: number, request: OutgoingRequest) {
    this.#session = session;
    this.#request = request;
    this.window = new SendWindow(session.initialWindow);
    this.response = this.#settled.promise;
    if (request.body instanceof AnnouncedBody) this.#continuation = new Continuation();
    this.response.catch(ignore("the exchange awaits it")).finally(() => this.#continuation?.settle(false));
    this.#deadline = session.deadline(() => this.#abort(new ConnectionLost("was idle for too long", true)));
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
      this.#restoreWindow(count - piece.length);
      this.#body.push(piece);
      if (!last) return;
      this.#body.end([]);
      this.#endReceiving();
    });
  }

  reset(code: number): void {
    if (code === h2.REFUSED_STREAM) return this.refuse();
    // An upstream that has responded may signal that it does not need the rest of the request.
    if (code === h2.NO_ERROR && this.#received) return;
    // Servers made with Node's stream API may send this in place of END_STREAM when they did not read the request.
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
    const bodiless = this.#request.method === "HEAD" || status === 204 || status === 304;
    const length = bodiless || declared === undefined
      ? undefined
      : Number(/^[0-9]{1,15}$/.exec(declared)?.[0]);
    if (Number.isNaN(length)) throw new MessageFault("content-length is not a number");
    const body = this.#body = new Http2Body(
      last && bodiless ? 0 : length,
      () => this.#deadline.set(this.#session.timeouts.body),
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
    this.window.close();
    const isComplete = this.#sent && this.#received;
    if (reset && !isComplete) this.#session.control(h2.numberFrame(h2.RST_STREAM, this.id, h2.CANCEL));
    this.#session.forget(this);
  }

  async #send(): Promise<void> {
    const { method, authority, target, headers, body, trailers } = this.#request;
    this.#deadline.set(this.#session.timeouts.body);
    const fields: Header[] = [
      [":method", method],
      [":scheme", "https"],
      [":authority", authority],
      [":path", target],
      ...headers,
    ];
    if (trailers) fields.push(["te", "trailers"]);
    if (body.length !== undefined && body.length > 0) fields.push(["content-length", `${body.length}`]);
    if (this.#continuation) fields.push(EXPECT_CONTINUE);
    await this.#sendHeaders(fields, body.done);
    if (this.#continuation) {
      const { watch } = this.#deadline;
      if (!await this.#continuation.wait(watch, this.#session.timeouts.proceed)) return;
    }
    if (!body.done) {
      for (let piece = await body.read(); piece !== null; piece = await body.read()) {
        await this.#sendData(piece);
      }
      const trailing = body.trailers.filter(mayTrail);
      if (trailing.length > 0) await this.#sendHeaders(trailing, true);
      else await this.#session.write(h2.frame(h2.DATA, h2.END_STREAM, this.id, new Uint8Array()));
    }
    this.#sent = true;
    if (this.#received) this.#close(true);
    else if (!this.#body && !this.#ended) this.#deadline.set(this.#session.timeouts.response);
  }

  #sendHeaders(headers: Header[], last: boolean): Promise<void> {
    const block = encodeHeaders(headers);
    const { frameMax } = this.#session;
    let written = Promise.resolve();
    for (let at = 0; at === 0 || at < block.length; at += frameMax) {
      const flags = (at + frameMax >= block.length ? h2.END_HEADERS : 0) |
        (at === 0 && last ? h2.END_STREAM : 0);
      const type = at === 0 ? h2.HEADERS : h2.CONTINUATION;
      written = this.#session.write(h2.frame(type, flags, this.id, block.subarray(at, at + frameMax)));
    }
    return written;
  }

  async #sendData(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length;) {
      while (this.window.remaining <= 0 || this.#session.window.remaining <= 0) {
        await (this.window.remaining <= 0 ? this.window : this.#session.window).more();
        if (this.#ended || this.#session.window.closed) throw new ConnectionLost("was closed");
      }
      const count = Math.min(
        piece.length - at,
        this.window.remaining,
        this.#session.window.remaining,
        this.#session.frameMax,
        h2.FRAME_MAX,
      );
      this.window.take(count);
      this.#session.window.take(count);
      this.#deadline.set(this.#session.timeouts.body);
      await this.#session.write(h2.frame(h2.DATA, 0, this.id, piece.subarray(at, at += count)));
    }
  }
}

/** Body of one stream. Its unread bytes are bounded by the stream's window. */
export class Http2Body implements BodySource {
  trailers: readonly Header[] = [];
  readonly length?: number;
  readonly #onWait: () => void;
  readonly #onRead: (count: number) => void;
  #unread = new ByteBuffer();
  #size = 0;
  #ended = false;
  #error?: Error;
  #wake?: () => void;

  /**
   * @param length `content-length` of the head
   * @param onWait called before each wait for bytes
   * @param onRead called with the number of bytes read
   */
  constructor(length: number | undefined, onWait: () => void, onRead: (count: number) => void) {
    if (length !== undefined) this.length = length;
    this.#onWait = onWait;
    this.#onRead = onRead;
  }

  get done(): boolean {
    return this.#ended && this.#unread.count === 0;
  }

  /** Tests whether every byte that the head declared is here. */
  get isWhole(): boolean {
    return this.#size === this.length;
  }

  get ready(): boolean {
    return this.#unread.count > 0;
  }

  async read(): Promise<Uint8Array | null> {
    while (true) {
      const { bytes } = this.#unread;
      if (bytes.length > 0) {
        this.#unread = new ByteBuffer();
        this.#onRead(bytes.length);
        return bytes;
      }
      if (this.#error) throw this.#error;
      if (this.#ended) return null;
      this.#onWait();
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  /** @throws {MessageFault} for more bytes than declared */
  push(piece: Uint8Array): void {
    this.#size += piece.length;
    if (this.#size > (this.length ?? Infinity)) {
      throw new MessageFault("the body is longer than its content-length");
    }
    this.#unread.add(piece);
    this.#wake?.();
  }

  /** @throws {MessageFault} for fewer bytes than declared */
  end(trailers: readonly Header[]): void {
    if (this.#size < (this.length ?? 0)) {
      throw new MessageFault("the body is shorter than its content-length");
    }
    this.trailers = trailers;
    this.#ended = true;
    this.#wake?.();
  }

  /** Ends the body with an error; bytes received before can still be read. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#error ??= error;
    this.#wake?.();
  }
}

/** Flow-control window of the sending side (RFC 9113 §5.2). */
export class SendWindow {
  #remaining: number;
  #closed = false;
  readonly #waiters: (() => void)[] = [];

  constructor(initial: number) {
    this.#remaining = initial;
  }

  /** `bytes` that may be sent now; negative after some changes of settings. */
  get remaining(): number {
    return this.#remaining;
  }

  get closed(): boolean {
    return this.#closed;
  }

  take(count: number): void {
    this.#remaining -= count;
  }

  /** @throws {h2.Http2Fault} for a window beyond the maximum */
  add(count: number): void {
    this.#remaining += count;
    if (this.#remaining > h2.WINDOW_MAX) {
      throw new h2.Http2Fault("a window beyond the maximum", h2.FLOW_CONTROL_ERROR);
    }
    if (this.#remaining > 0) this.#wake();
  }

  /** Settles when more may be sent, or the window is closed. */
  more(): Promise<void> {
    if (this.#remaining > 0 || this.#closed) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}
