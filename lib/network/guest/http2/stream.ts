/** Server side of HTTP/2: one request of a guest, and the response on the same stream. */
import { ignore } from "../../../base/error/mod.ts";
import { BufferedConnection, type ByteStream, type Deadline } from "../../connection.ts";
import type { Outlet } from "../../exchange/context.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../../fault.ts";
import * as h2 from "../../http2/mod.ts";
import { GUEST_STREAM_WINDOW, type NetTimeouts, TRAILERS_MAX } from "../../limit.ts";
import { NO_BYTES } from "../../message/bytes.ts";
import { type Header, mayTrail } from "../../message/header.ts";
import { GuestReplies, type ReplyOptions } from "../replies.ts";
import { checkTrailers, sizeOf } from "./head.ts";

/** The connection of a stream. */
export interface GuestSession extends h2.SendingPeer {
  readonly timeouts: NetTimeouts;
  deadline(expire: () => void): Deadline;
  control(bytes: Uint8Array): void;
  /** Removes a stream that has ended. @param isReset its client may still send for it */
  forget(stream: GuestStream, isReset: boolean): void;
  /** The guest reset a stream, or made this side do so. */
  countReset(): void;
  /** A part of a response was sent. */
  countSent(): void;
  /** Opens the connection's window by bytes that hold no memory any more. */
  restore(count: number): void;
}

/** One stream of a guest: its request comes in, and the response goes out. */
export class GuestStream implements h2.PeerStream {
  readonly body: h2.Http2Body;
  /** the response can begin; false once the stream has ended */
  isOpen = true;
  /** a byte of the final response was sent */
  begun = false;
  readonly #session: GuestSession;
  readonly #sender: h2.StreamSender;
  readonly #reading: Deadline;
  readonly #writing: Deadline;
  readonly #gone = new AbortController();
  #onGone?: () => void;
  /** `bytes` read since the last window update */
  #read = 0;
  /** `bytes` that the guest may still send */
  #granted = GUEST_STREAM_WINDOW;
  #received: boolean;
  /** writes under way */
  #sending = 0;
  #fault?: MessageFault;

  constructor(
    session: GuestSession,
    readonly id: number,
    { length, endsStream, idleMs }: {
      /** `content-length` of the request */
      length: number | undefined;
      /** it has no body */
      endsStream: boolean;
      /** longest wait for the guest */
      idleMs: number;
    },
  ) {
    this.#session = session;
    this.#received = endsStream;
    const giveUp = () => this.#close(new ConnectionLost("was idle for too long", true), h2.CANCEL);
    this.#reading = session.deadline(giveUp);
    this.#writing = session.deadline(giveUp);
    this.#sender = new h2.StreamSender(session, id, this.#writing, idleMs, () => this.#finish());
    this.body = new h2.Http2Body(
      length ?? (endsStream ? 0 : undefined),
      () => this.#reading.set(idleMs),
      (count) => this.#restore(count),
    );
    if (endsStream && !length) this.body.end([]);
  }

  get window(): h2.SendWindow {
    return this.#sender.window;
  }

  /** Ends the wait for a person's answer when the guest is gone. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  /** @param count `bytes` of the window that the piece takes, with its padding */
  data(piece: Uint8Array, count: number, last: boolean): void {
    this.#requireOpen("DATA");
    this.#granted -= count;
    if (this.#granted < 0) throw new h2.Http2Fault("more data than the window allows", h2.FLOW_CONTROL_ERROR);
    this.#reading.off();
    this.#restore(count - piece.length);
    if (this.#fault) return this.#restore(piece.length);
    const { unread } = this.body;
    this.#guard(() => {
      this.body.push(piece);
      if (last) this.#end([]);
    });
    // A body that is too long keeps none of the piece.
    if (this.#fault && this.body.unread === unread) this.#session.restore(piece.length);
  }

  /** Receives the fields behind the body. */
  trailers(fields: Header[], last: boolean): void {
    this.#requireOpen("HEADERS");
    this.#reading.off();
    this.#guard(() => {
      if (!last) throw new MessageFault("data after the trailers");
      if (sizeOf(fields) > TRAILERS_MAX) throw new MessageFault("the trailers are too long");
      checkTrailers(fields);
      this.#end(fields.filter(mayTrail));
    });
  }

  /** Takes its request for one that cannot be read safely. */
  break(fault: MessageFault): void {
    this.#fault = fault;
  }

  reset(): void {
    this.#close(new ConnectionLost("reset the stream"));
    this.#session.countReset();
  }

  fault(error: Error): void {
    const code = error instanceof h2.Http2Fault ? error.code : h2.PROTOCOL_ERROR;
    this.#close(new ClientLost(error), code);
    this.#session.countReset();
  }

  fail(error: Error): void {
    this.#close(error);
  }

  /** Resets a stream whose response cannot be completed, or was complete before its request. */
  abort(code: number): void {
    this.#close(new ConnectionLost("was closed"), code);
  }

  /** Calls back when the guest resets the stream, or its connection ends. */
  watch(onGone: () => void): void {
    this.#onGone = onGone;
    if (this.#gone.signal.aborted) onGone();
  }

  /** Sends fields. @throws {ClientLost} */
  headers(fields: readonly Header[], last: boolean): Promise<void> {
    return this.#send(() => this.#sender.headers(fields, last));
  }

  /** Sends fields and a short body. @throws {ClientLost} */
  whole(fields: readonly Header[], body: Uint8Array): Promise<void> {
    return this.#send(() => this.#sender.whole(fields, body));
  }

  /** Sends a piece of the body. @throws {ClientLost} */
  sendData(piece: Uint8Array, last: boolean): Promise<void> {
    return this.#send(() => this.#sender.data(piece, last));
  }

  /** The stream as a connection, for the protocol that a response has agreed to. */
  connection(): BufferedConnection {
    return new BufferedConnection(new StreamBytes(this), this.#reading.watch);
  }

  async #send(send: () => Promise<void>): Promise<void> {
    if (!this.isOpen) throw new ClientLost(new ConnectionLost("reset the stream"));
    this.#sending++;
    try {
      await send();
      this.#session.countSent();
    } catch (cause) {
      throw new ClientLost(cause);
    } finally {
      // Others may wait for a window.
      if (--this.#sending === 0) this.#writing.off();
    }
  }

  /** The last frame of the response is on its way. */
  #finish(): void {
    if (!this.isOpen) return;
    // The guest need not send the rest of a request that was answered (RFC 9113 §8.1).
    const code = this.#fault ? h2.PROTOCOL_ERROR : h2.NO_ERROR;
    const isReset = !this.#received || this.#fault !== undefined;
    if (isReset) this.#session.control(h2.numberFrame(h2.RST_STREAM, this.id, code));
    this.#leave(isReset);
    this.body.fail(new ConnectionLost("was closed"));
  }

  #close(error: Error, code?: number): void {
    if (!this.isOpen) return;
    if (code !== undefined) this.#session.control(h2.numberFrame(h2.RST_STREAM, this.id, code));
    this.#leave(code !== undefined);
    this.body.fail(error);
    this.#gone.abort();
    this.#onGone?.();
  }

  #leave(isReset: boolean): void {
    this.isOpen = false;
    this.#reading.watch.remove(this.#reading);
    this.#writing.watch.remove(this.#writing);
    this.#sender.end();
    // Its unread bytes go with it.
    this.#session.restore(this.body.unread);
    this.#session.forget(this, isReset);
  }

  #end(trailers: Header[]): void {
    this.body.end(trailers);
    this.#received = true;
  }

  /** @throws {h2.Http2Fault} the guest has ended its side */
  #requireOpen(type: string): void {
    if (this.#received) {
      throw new h2.Http2Fault(`a ${type} frame behind the end of its stream`, h2.STREAM_CLOSED);
    }
  }

  /** Runs a step; its fault is that of the request, not of the connection. */
  #guard(step: () => void): void {
    try {
      step();
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      this.#fault = error;
      this.body.fail(error);
      // The answer cannot be replaced any more.
      if (this.begun) this.fault(error);
      else this.#session.countReset();
    }
  }

  #restore(count: number): void {
    if (!this.isOpen || count === 0) return;
    this.#session.restore(count);
    this.#read += count;
    if (this.#read < GUEST_STREAM_WINDOW / 2 || this.#received) return;
    this.#session.control(h2.numberFrame(h2.WINDOW_UPDATE, this.id, this.#read));
    this.#granted += this.#read;
    this.#read = 0;
  }
}

/** Bytes of a stream both ways. */
class StreamBytes implements ByteStream {
  readonly #stream: GuestStream;
  #piece: Uint8Array = NO_BYTES;

  constructor(stream: GuestStream) {
    this.#stream = stream;
  }

  async read(into: Uint8Array): Promise<number | null> {
    if (this.#piece.length === 0) {
      const piece = await this.#stream.body.read();
      if (piece === null) return null;
      this.#piece = piece;
    }
    const count = Math.min(into.length, this.#piece.length);
    into.set(this.#piece.subarray(0, count));
    this.#piece = this.#piece.subarray(count);
    return count;
  }

  async write(bytes: Uint8Array): Promise<number> {
    await this.#stream.sendData(bytes, false);
    return bytes.length;
  }

  close(): void {
    if (!this.#stream.isOpen) return;
    this.#stream.sendData(NO_BYTES, true).catch(ignore("the guest has left"));
  }
}

/** Writes one response on a stream of a guest. */
export class StreamOutlet extends GuestReplies implements Outlet {
  readonly #stream: GuestStream;
  /** fields that go out with the first piece of the body */
  #head?: Header[];
  #isAwaited: boolean;
  /** the request is for a WebSocket, which any 2xx would accept */
  readonly #isSocket: boolean;

  constructor(stream: GuestStream, options: ReplyOptions & { expects?: boolean; isSocket?: boolean }) {
    super(options);
    this.#isSocket = options.isSocket === true;
    this.#stream = stream;
    this.#isAwaited = options.expects === true;
  }

  get signal(): AbortSignal {
    return this.#stream.signal;
  }

  async proceed(): Promise<void> {
    if (!this.#isAwaited) return;
    this.#isAwaited = false;
    await this.#stream.headers([[":status", "100"]], false);
  }

  async sendWhole(
    status: number,
    headers: readonly Header[],
    body: Uint8Array,
    declared?: string,
  ): Promise<void> {
    const isBodiless = this.isBodiless(status);
    const length = isBodiless ? declared : `${body.length}`;
    this.#stream.begun = true;
    const fields: Header[] = [[":status", this.#statusOf(status)], ...headers];
    if (length !== undefined) fields.push(["content-length", length]);
    await this.#stream.whole(fields, isBodiless ? NO_BYTES : body);
  }

  begin(status: number, headers: readonly Header[], length: number | undefined): void {
    this.#head = [[":status", this.#statusOf(status)], ...headers];
    if (length !== undefined) this.#head.push(["content-length", `${length}`]);
  }

  async flush(): Promise<void> {
    const head = this.#takeHead();
    if (head) await this.#stream.headers(head, false);
  }

  async write(piece: Uint8Array): Promise<void> {
    const head = this.#takeHead();
    if (!head) return await this.#stream.sendData(piece, false);
    await Promise.all([this.#stream.headers(head, false), this.#stream.sendData(piece, false)]);
  }

  async end(trailers: readonly Header[]): Promise<void> {
    const head = this.#takeHead();
    if (head && trailers.length === 0) return await this.#stream.headers(head, true);
    const begun = head && this.#stream.headers(head, false);
    await Promise.all([
      begun,
      trailers.length > 0 ? this.#stream.headers(trailers, true) : this.#stream.sendData(NO_BYTES, true),
    ]);
  }

  async upgrade(headers: readonly Header[]): Promise<BufferedConnection> {
    this.#stream.begun = true;
    const fields = headers.filter(([name]) => name !== "sec-websocket-accept");
    await this.#stream.headers([[":status", "200"], ...fields], false);
    return this.#stream.connection();
  }

  cut(): void {
    this.#stream.abort(h2.INTERNAL_ERROR);
  }

  watch(onGone: () => void): void {
    this.#stream.watch(onGone);
  }

  /** An upstream that answers without a WebSocket has accepted none. */
  #statusOf(status: number): string {
    return this.#isSocket && status < 300 ? "502" : `${status}`;
  }

  #takeHead(): Header[] | undefined {
    const head = this.#head;
    this.#head = undefined;
    this.#stream.begun = true;
    return head;
  }
}
