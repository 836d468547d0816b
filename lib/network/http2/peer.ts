/**
 * HTTP/2 connection, the part that client and server share: reads and checks frames, joins header blocks, and
 * writes.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import { ignore } from "../../base/error/mod.ts";
import type { BufferedConnection, Deadline } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { NetTimeouts } from "../limit.ts";
import type { Header } from "../message/header.ts";
import { SendWindow } from "./body.ts";
import * as h2 from "./frame.ts";
import { HeaderDecoder } from "./hpack.ts";

/** Most unsent control frames; a peer that causes more of them than it reads is disconnected. */
const CONTROL_MAX = 1000;

/** Most settings in one frame: some of them change every stream. */
const SETTINGS_MAX = 64;

/** A stream, as its connection handles it. */
export interface PeerStream {
  readonly id: number;
  readonly window: SendWindow;
  /** The peer reset it. */
  reset(code: number): void;
  /** Resets it for a fault of its own frames. */
  fault(error: Error): void;
  /** Ends it with its connection. */
  fail(error: Error): void;
}

/** One side of an HTTP/2 connection: reads and checks frames, joins header blocks, and writes. */
export abstract class Http2Peer<S extends PeerStream> {
  readonly window = new SendWindow(h2.WINDOW);
  readonly timeouts: NetTimeouts;
  /** initial send window of a stream in `bytes` */
  initialWindow = h2.WINDOW;
  /** longest payload that the peer accepts, in `bytes` */
  frameMax = h2.FRAME_MAX;
  protected readonly connection: BufferedConnection;
  protected readonly streams = new Map<number, S>();
  protected ended = false;
  readonly #decoder = new HeaderDecoder();
  #isGreeted = false;
  #control = 0;
  #block?: h2.HeaderBlock;
  /** frames that the next write takes */
  #waiting: Uint8Array[] = [];
  #next?: Promise<void>;
  #writing: Promise<void> = Promise.resolve();

  constructor(connection: BufferedConnection, timeouts: NetTimeouts) {
    this.connection = connection;
    this.timeouts = timeouts;
  }

  /** A deadline for one stream. */
  deadline(expire: () => void): Deadline {
    return this.connection.deadline.watch.add(expire);
  }

  /**
   * Writes after all earlier writes, together with others that wait: one write for many frames.
   *
   * @throws {ConnectionLost}
   */
  write(bytes: Uint8Array): Promise<void> {
    this.#waiting.push(bytes);
    return this.#next ??= this.#writing.then(() => this.#writeWaiting());
  }

  /** Writes a control frame in the background. */
  control(bytes: Uint8Array): void {
    if (++this.#control > CONTROL_MAX) {
      return this.fail(new h2.Http2Fault("unread responses to control frames", h2.ENHANCE_YOUR_CALM));
    }
    this.write(bytes).catch(ignore("the reader of the connection reports its end")).finally(() =>
      this.#control--
    );
  }

  /** Reads frames until the connection ends. */
  protected async run(): Promise<void> {
    try {
      do this.#handleUnread(); while (!this.ended && await this.connection.fill());
      throw new ConnectionLost("closed the connection");
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Handles the whole frames that have been received. */
  #handleUnread(): void {
    for (let frame = this.#take(); frame && !this.ended; frame = this.#take()) this.#handle(frame);
  }

  /** True for a stream that may not get a frame of this type: it has no request yet. */
  protected abstract isIdle(stream: number, type: number): boolean;
  /** A DATA frame; `content` is without its padding. */
  protected abstract data(frame: h2.Frame, content: Uint8Array, stream: S | undefined): void;
  /** A whole header block. */
  protected abstract headers(stream: number, headers: Header[], endsStream: boolean): void;
  protected abstract goAway(frame: h2.Frame): void;
  /** Ends every stream and the connection. */
  abstract fail(error: Error): void;
  /** The peer's first settings have come. */
  protected greet(): void {}
  /** A frame that passed its checks, before it is handled. */
  protected count(_frame: h2.Frame): void {}

  /** A setting of the peer. @throws {h2.Http2Fault} */
  protected setting(id: number, value: number): void {
    if (id === h2.MAX_FRAME_SIZE) {
      if (value < h2.FRAME_MAX || value > 2 ** 24 - 1) {
        throw new h2.Http2Fault("settings out of range", h2.PROTOCOL_ERROR);
      }
      this.frameMax = value;
    }
    if (id === h2.INITIAL_WINDOW_SIZE) {
      if (value > h2.WINDOW_MAX) throw new h2.Http2Fault("settings out of range", h2.FLOW_CONTROL_ERROR);
      for (const stream of this.streams.values()) stream.window.add(value - this.initialWindow);
      this.initialWindow = value;
    }
  }

  async #writeWaiting(): Promise<void> {
    const frames = this.#waiting;
    this.#waiting = [];
    this.#next = undefined;
    const written = this.connection.write(joinBytes(frames));
    this.#writing = written.catch(ignore("the writers of these frames get the error"));
    await written;
  }

  #take(): h2.Frame | undefined {
    const { unread } = this.connection;
    if (unread.length < h2.FRAME_HEAD) return undefined;
    const view = new DataView(unread.buffer, unread.byteOffset);
    const length = view.getUint32(0) >>> 8;
    if (length > h2.FRAME_MAX) throw new h2.Http2Fault("a frame longer than allowed", h2.FRAME_SIZE_ERROR);
    if (unread.length < h2.FRAME_HEAD + length) return undefined;
    this.connection.skip(h2.FRAME_HEAD + length);
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
    h2.checkFrame(frame, (stream, type) => this.isIdle(stream, type));
    this.count(frame);
    const stream = this.streams.get(frame.stream);
    switch (frame.type) {
      case h2.DATA:
        return this.data(frame, h2.contentOf(frame), stream);
      case h2.HEADERS:
        return this.#addToBlock(this.#block = new h2.HeaderBlock(frame), h2.contentOf(frame), frame.flags);
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
        return this.goAway(frame);
      case h2.WINDOW_UPDATE:
        return this.#widen(frame, stream);
    }
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
    this.headers(block.stream, this.#decode(block.joined()), block.endsStream);
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
    if (payload.length > SETTINGS_MAX * 6) {
      throw new h2.Http2Fault("more settings in a frame than a peer has use for", h2.ENHANCE_YOUR_CALM);
    }
    for (let at = 0; at < payload.length; at += 6) this.setting(view.getUint16(at), view.getUint32(at + 2));
    this.control(h2.frame(h2.SETTINGS, h2.ACK, 0, new Uint8Array()));
    this.#isGreeted = true;
    this.greet();
  }

  #widen(frame: h2.Frame, stream: S | undefined): void {
    const count = numberOf(frame) & h2.WINDOW_MAX;
    const fault = count === 0 ? new h2.Http2Fault("a window update of 0", h2.PROTOCOL_ERROR) : undefined;
    if (frame.stream === 0) {
      if (fault) throw fault;
      this.window.add(count);
    } else if (fault) stream?.fault(fault);
    else stream?.window.add(count);
  }
}

function numberOf({ payload }: h2.Frame): number {
  return new DataView(payload.buffer, payload.byteOffset).getUint32(0);
}
