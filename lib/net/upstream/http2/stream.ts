import { ConnectionLost, MessageFault } from "../../fault.ts";
import { checkFields } from "../../message/head.ts";
import { endToEnd, type Header, headerValue, mayTrail } from "../../message/header.ts";
import { INTERIM_MAX, STREAM_WINDOW } from "../../limit.ts";
import type { OutgoingRequest, UpstreamAnswer, UpstreamExchange } from "../upstream.ts";
import type { Deadline } from "../../watch.ts";
import { Http2Body } from "./body.ts";
import * as h2 from "./frame.ts";
import { encodeHeaders } from "./hpack.ts";
import type { Http2Session } from "./session.ts";
import { SendWindow } from "./window.ts";

/** One request and its answer, as a stream of a session. */
export class Http2Exchange implements UpstreamExchange {
  readonly answer: Promise<UpstreamAnswer>;
  readonly window: SendWindow;
  answered = false;
  refused = false;
  readonly #session: Http2Session;
  readonly #request: OutgoingRequest;
  readonly #deadline: Deadline;
  readonly #settled = Promise.withResolvers<UpstreamAnswer>();
  #body?: Http2Body;
  /** bytes that were read since the upstream was told so */
  #read = 0;
  /** bytes that the upstream may still send */
  #granted = STREAM_WINDOW;
  #interim = 0;
  #sent = false;
  #received = false;
  #over = false;

  constructor(session: Http2Session, readonly id: number, request: OutgoingRequest) {
    this.#session = session;
    this.#request = request;
    this.window = new SendWindow(session.initialWindow);
    this.answer = this.#settled.promise;
    this.answer.catch(() => {});
    this.#deadline = session.deadline(() =>
      this.#break(new ConnectionLost("did nothing for too long", true))
    );
  }

  begin(): void {
    this.#send().catch((error) => this.#break(error));
  }

  done(): void {
    this.#close(true);
  }

  abort(): void {
    this.#break(new ConnectionLost("was closed"));
  }

  /** A header block has come: the head of an answer, or trailers. */
  headers(headers: Header[], last: boolean): void {
    this.#guarded(() => {
      this.answered = true;
      checkFields(headers);
      if (this.#body) {
        if (!last) throw new MessageFault("its trailers are not the end");
        this.#body.end(headers.filter(mayTrail));
        return this.#receivedAll();
      }
      const status = Number(/^[1-9][0-9]{2}$/.exec(headerValue(headers, ":status") ?? "")?.[0]);
      if (Number.isNaN(status) || status === 101) throw new MessageFault("its head has no proper status");
      if (status < 200) {
        if (last || ++this.#interim > INTERIM_MAX) {
          throw new MessageFault("it sends interim answers without end");
        }
        return;
      }
      this.#answer(status, headers.filter(([name]) => name[0] !== ":"), last);
    });
  }

  /** @param count of the window that the piece takes, with its padding */
  data(piece: Uint8Array, count: number, last: boolean): void {
    this.#guarded(() => {
      if (!this.#body) throw new MessageFault("its body comes before its head");
      this.#granted -= count;
      if (this.#granted < 0) throw new MessageFault("it sends more than it was allowed to");
      this.#taken(count - piece.length);
      this.#body.push(piece);
      if (!last) return;
      this.#body.end([]);
      this.#receivedAll();
    });
  }

  reset(code: number): void {
    if (code === h2.REFUSED_STREAM) return this.refuse();
    // An upstream that has answered may say in this way that it needs no more of the request.
    if (code === h2.NO_ERROR && this.#received) return;
    this.answered = true;
    this.fail(new ConnectionLost("broke the exchange off"));
  }

  /** The upstream has not acted on it, and says so. */
  refuse(): void {
    this.refused = true;
    this.fail(new ConnectionLost("refused the exchange"));
  }

  /** It is over without a proper end. */
  fail(error: Error): void {
    this.#settled.reject(error);
    this.#body?.fail(error);
    this.#close(false);
  }

  #answer(status: number, headers: Header[], last: boolean): void {
    const given = headerValue(headers, "content-length");
    const bodiless = this.#request.method === "HEAD" || status === 204 || status === 304;
    const length = bodiless || given === undefined ? undefined : Number(/^[0-9]{1,15}$/.exec(given)?.[0]);
    if (Number.isNaN(length)) throw new MessageFault("its length is no number");
    const body = this.#body = new Http2Body(
      last && bodiless ? 0 : length,
      () => this.#deadline.set(this.#session.timeouts.body),
      (count) => this.#taken(count),
    );
    if (last) {
      body.end([]);
      this.#receivedAll();
    }
    const declared = given === undefined ? {} : { declared: given };
    this.#settled.resolve({ status, headers: endToEnd(headers), body, ...declared });
  }

  #receivedAll(): void {
    this.#received = true;
    this.#deadline.off();
    if (this.#sent) this.#close(true);
  }

  #taken(count: number): void {
    this.#read += count;
    if (this.#read < STREAM_WINDOW / 2 || this.#over) return;
    this.#session.control(h2.numberFrame(h2.WINDOW_UPDATE, this.id, this.#read));
    this.#granted += this.#read;
    this.#read = 0;
  }

  /** What is wrong with one stream ends it, and not the session. */
  #guarded(work: () => void): void {
    if (this.#over || this.#received) return;
    try {
      work();
    } catch (error) {
      this.#break(error as Error);
    }
  }

  #break(error: Error): void {
    if (this.#over) return;
    this.#settled.reject(error);
    this.#body?.fail(error);
    this.#close(true);
  }

  /** @param tell whether the upstream has to hear of it, when one side is not complete */
  #close(tell: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#deadline.watch.remove(this.#deadline);
    this.window.close();
    const whole = this.#sent && this.#received;
    if (tell && !whole) this.#session.control(h2.numberFrame(h2.RST_STREAM, this.id, h2.CANCEL));
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
    await this.#sendHeaders(fields, body.done);
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
    else if (!this.#body && !this.#over) this.#deadline.set(this.#session.timeouts.answer);
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
      while (this.window.left <= 0 || this.#session.window.left <= 0) {
        await (this.window.left <= 0 ? this.window : this.#session.window).more();
        if (this.#over || this.#session.window.closed) throw new ConnectionLost("was closed");
      }
      const count = Math.min(
        piece.length - at,
        this.window.left,
        this.#session.window.left,
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
