import { ignore } from "../../../base/error/mod.ts";
import type { BufferedConnection, Deadline } from "../../connection.ts";
import { ConnectionLost, MessageFault } from "../../fault.ts";
import { HEAD_MAX, type NetTimeouts, STREAM_WINDOW, STREAMS_MAX } from "../../limit.ts";
import type { Header } from "../../message/header.ts";
import type { OutgoingRequest } from "../upstream.ts";
import * as h2 from "./frame.ts";
import { HeaderDecoder } from "./hpack.ts";
import { Http2Exchange, SendWindow } from "./stream.ts";

/** Receive window of the whole connection in `bytes`. */
const CONNECTION_WINDOW = 16 * 1024 * 1024;
/** Most unsent control frames; an upstream that causes more of them than it reads is disconnected. */
const CONTROL_MAX = 1000;

/** HTTP/2 connection to one upstream, with its streams. */
export class Http2Session {
  readonly window = new SendWindow(h2.WINDOW);
  readonly timeouts: NetTimeouts;
  /** initial send window of a stream in `bytes` */
  initialWindow = h2.WINDOW;
  /** longest payload that the upstream accepts, in `bytes` */
  frameMax = h2.FRAME_MAX;
  readonly #connection: BufferedConnection;
  readonly #decoder = new HeaderDecoder();
  readonly #streams = new Map<number, Http2Exchange>();
  readonly #onEnd: () => void;
  #next = 1;
  #streamsMax = STREAMS_MAX;
  /** waits for the upstream's first frame, its settings */
  readonly #greeting = Promise.withResolvers<void>();
  readonly #greetingDeadline: Deadline;
  #isGreeted = false;
  #isLeaving = false;
  #ended = false;
  #control = 0;
  #received = 0;
  #block?: h2.HeaderBlock;
  #tail: Promise<void> = Promise.resolve();

  /** @param onEnd called once it takes no more streams */
  constructor(connection: BufferedConnection, timeouts: NetTimeouts, onEnd: () => void) {
    this.#connection = connection;
    this.timeouts = timeouts;
    this.#onEnd = onEnd;
    this.#greetingDeadline = this.deadline(() => this.#fail(new ConnectionLost("sent no settings", true)));
    this.#greetingDeadline.set(timeouts.connect);
    this.write(h2.PREFACE).catch(ignore("the reader of the connection reports its end"));
    this.control(h2.settingsFrame([
      [h2.ENABLE_PUSH, 0],
      [h2.INITIAL_WINDOW_SIZE, STREAM_WINDOW],
      [h2.MAX_HEADER_LIST_SIZE, HEAD_MAX],
    ]));
    this.control(h2.numberFrame(h2.WINDOW_UPDATE, 0, CONNECTION_WINDOW - h2.WINDOW));
    this.#run();
  }

  /** Settles when the upstream's settings have come, or the session has ended. */
  get greeted(): Promise<void> {
    return this.#greeting.promise;
  }

  /** True while it takes another stream. */
  get hasRoom(): boolean {
    return !this.#isLeaving && !this.#ended && this.#streams.size < this.#streamsMax &&
      this.#next < h2.WINDOW_MAX;
  }

  /** Begins an exchange; only while it {@linkcode hasRoom}. */
  exchange(request: OutgoingRequest): Http2Exchange {
    const id = this.#next;
    this.#next += 2;
    this.#connection.deadline.off();
    const stream = new Http2Exchange(this, id, request);
    this.#streams.set(id, stream);
    stream.begin();
    return stream;
  }

  /** A deadline for one stream. */
  deadline(expire: () => void): Deadline {
    return this.#connection.deadline.watch.add(expire);
  }

  /** Removes a stream that has ended. */
  forget(stream: Http2Exchange): void {
    if (!this.#streams.delete(stream.id) || this.#streams.size > 0) return;
    if (this.#isLeaving) this.close();
    else this.#connection.deadline.set(this.timeouts.idle);
  }

  /** Writes after all earlier writes. @throws {ConnectionLost} */
  write(bytes: Uint8Array): Promise<void> {
    const written = this.#tail.then(() => this.#connection.write(bytes));
    this.#tail = written.catch(ignore("the writer of these bytes gets the error"));
    return written;
  }

  /** Writes a control frame in the background. */
  control(bytes: Uint8Array): void {
    if (++this.#control > CONTROL_MAX) {
      return this.#fail(new MessageFault("unread responses to control frames"));
    }
    this.write(bytes).catch(ignore("the reader of the connection reports its end")).finally(() =>
      this.#control--
    );
  }

  close(): void {
    this.#fail(new ConnectionLost("was closed"));
  }

  /** Takes no further stream; closes once the last one has ended. */
  retire(): void {
    this.#isLeaving = true;
    this.#onEnd();
    if (this.#streams.size === 0) this.close();
  }

  async #run(): Promise<void> {
    try {
      while (!this.#ended && await this.#connection.fill()) {
        for (let frame = this.#take(); frame && !this.#ended; frame = this.#take()) this.#handle(frame);
      }
      throw new ConnectionLost("closed the connection");
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #take(): h2.Frame | undefined {
    const { unread } = this.#connection;
    if (unread.length < h2.FRAME_HEAD) return undefined;
    const view = new DataView(unread.buffer, unread.byteOffset);
    const length = view.getUint32(0) >>> 8;
    if (length > h2.FRAME_MAX) throw new h2.Http2Fault("a frame longer than allowed", h2.FRAME_SIZE_ERROR);
    if (unread.length < h2.FRAME_HEAD + length) return undefined;
    this.#connection.skip(h2.FRAME_HEAD + length);
    return {
      type: unread[3],
      flags: unread[4],
      stream: view.getUint32(5) & h2.WINDOW_MAX,
      payload: unread.subarray(h2.FRAME_HEAD, h2.FRAME_HEAD + length),
    };
  }

  #handle(frame: h2.Frame): void {
    if (this.#block && (frame.type !== h2.CONTINUATION || frame.stream !== this.#block.stream)) {
      throw new h2.Http2Fault("an interrupted header block", h2.PROTOCOL_ERROR);
    }
    if (!this.#isGreeted && (frame.type !== h2.SETTINGS || frame.flags & h2.ACK)) {
      throw new h2.Http2Fault("a connection that does not begin with settings", h2.PROTOCOL_ERROR);
    }
    h2.checkFrame(frame, this.#next);
    const stream = this.#streams.get(frame.stream);
    switch (frame.type) {
      case h2.DATA:
        return this.#data(frame, stream);
      case h2.HEADERS:
        return this.#headers(frame);
      case h2.CONTINUATION:
        return this.#continue(frame);
      case h2.RST_STREAM:
        return stream?.reset(numberOf(frame));
      case h2.SETTINGS:
        return this.#settings(frame);
      case h2.PING:
        if (!(frame.flags & h2.ACK)) this.control(h2.frame(h2.PING, h2.ACK, 0, frame.payload));
        return;
      case h2.GOAWAY:
        return this.#goAway(frame);
      case h2.WINDOW_UPDATE:
        return this.#widen(frame, stream);
    }
  }

  #data(frame: h2.Frame, stream: Http2Exchange | undefined): void {
    // Padding counts too. Streams bound the unread bytes, so the connection's window is restored at once.
    this.#received += frame.payload.length;
    if (this.#received >= CONNECTION_WINDOW / 2) {
      this.control(h2.numberFrame(h2.WINDOW_UPDATE, 0, this.#received));
      this.#received = 0;
    }
    const content = h2.contentOf(frame);
    stream?.data(content, frame.payload.length, (frame.flags & h2.END_STREAM) !== 0);
  }

  #headers(frame: h2.Frame): void {
    const piece = h2.contentOf(frame);
    this.#block = new h2.HeaderBlock(frame);
    this.#addToBlock(this.#block, piece, frame.flags);
  }

  #continue({ payload, flags }: h2.Frame): void {
    if (!this.#block) {
      throw new h2.Http2Fault("a CONTINUATION frame without a header block", h2.PROTOCOL_ERROR);
    }
    this.#addToBlock(this.#block, payload, flags);
  }

  #addToBlock(block: h2.HeaderBlock, piece: Uint8Array, flags: number): void {
    block.add(piece);
    if (!(flags & h2.END_HEADERS)) return;
    this.#block = undefined;
    // Also for streams that have ended: both tables must stay the same.
    const headers = this.#decode(block.joined());
    this.#streams.get(block.stream)?.headers(headers, block.endsStream);
  }

  #decode(block: Uint8Array): Header[] {
    try {
      return this.#decoder.decode(block);
    } catch (error) {
      throw error instanceof MessageFault ? new h2.Http2Fault(error.reason, h2.COMPRESSION_ERROR) : error;
    }
  }

  #settings({ flags, payload }: h2.Frame): void {
    if (flags & h2.ACK) return;
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
    for (let at = 0; at < payload.length; at += 6) this.#setting(view.getUint16(at), view.getUint32(at + 2));
    this.control(h2.frame(h2.SETTINGS, h2.ACK, 0, new Uint8Array()));
    this.#endGreeting();
  }

  #endGreeting(): void {
    this.#isGreeted = true;
    this.#connection.deadline.watch.remove(this.#greetingDeadline);
    this.#greeting.resolve();
  }

  #setting(id: number, value: number): void {
    if (id === h2.ENABLE_PUSH && value !== 0) {
      throw new h2.Http2Fault("settings out of range", h2.PROTOCOL_ERROR);
    }
    if (id === h2.MAX_CONCURRENT_STREAMS) this.#streamsMax = Math.min(value, STREAMS_MAX);
    if (id === h2.MAX_FRAME_SIZE) {
      if (value < h2.FRAME_MAX || value > 2 ** 24 - 1) {
        throw new h2.Http2Fault("settings out of range", h2.PROTOCOL_ERROR);
      }
      this.frameMax = value;
    }
    if (id === h2.INITIAL_WINDOW_SIZE) {
      if (value > h2.WINDOW_MAX) throw new h2.Http2Fault("settings out of range", h2.FLOW_CONTROL_ERROR);
      for (const stream of this.#streams.values()) stream.window.add(value - this.initialWindow);
      this.initialWindow = value;
    }
  }

  #goAway({ payload }: h2.Frame): void {
    const last = new DataView(payload.buffer, payload.byteOffset).getUint32(0) & h2.WINDOW_MAX;
    this.#isLeaving = true;
    this.#onEnd();
    for (const stream of [...this.#streams.values()]) if (stream.id > last) stream.refuse();
    if (this.#streams.size === 0) this.close();
  }

  #widen(frame: h2.Frame, stream: Http2Exchange | undefined): void {
    const count = numberOf(frame) & h2.WINDOW_MAX;
    const fault = count === 0 ? new h2.Http2Fault("a window update of 0", h2.PROTOCOL_ERROR) : undefined;
    if (frame.stream === 0) {
      if (fault) throw fault;
      this.window.add(count);
    } else if (fault) stream?.fault(fault);
    else stream?.window.add(count);
  }

  #fail(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#endGreeting();
    this.#onEnd();
    const reason = this.#connection.timedOut && this.#streams.size > 0
      ? new ConnectionLost("was idle for too long", true)
      : error;
    for (const stream of [...this.#streams.values()]) stream.fail(reason);
    this.window.close();
    if (!(error instanceof MessageFault)) return this.#connection.close();
    // The upstream is notified before the end, unless it reads nothing.
    const code = error instanceof h2.Http2Fault ? error.code : h2.PROTOCOL_ERROR;
    this.#connection.deadline.set(this.timeouts.close);
    this.write(h2.goAwayFrame(code)).catch(ignore("the connection is closed either way")).finally(() =>
      this.#connection.close()
    );
  }
}

function numberOf({ payload }: h2.Frame): number {
  return new DataView(payload.buffer, payload.byteOffset).getUint32(0);
}
