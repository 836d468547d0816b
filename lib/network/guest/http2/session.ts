/** Server side of HTTP/2: one connection of a guest, with its streams. */
import { ignore } from "../../../base/error/mod.ts";
import { guestRefusal } from "../../../policy/mod.ts";
import type { BufferedConnection } from "../../connection.ts";
import { isGrpc } from "../../exchange/grpc.ts";
import { HttpExchange } from "../../exchange/exchange.ts";
import { ClientLost, ConnectionLost, MessageFault } from "../../fault.ts";
import * as h2 from "../../http2/mod.ts";
import {
  GUEST_CONNECTION_WINDOW,
  GUEST_STREAM_WINDOW,
  HEAD_MAX,
  HTTP2_IDLE_FRAMES,
  HTTP2_IDLE_FRAMES_RATE,
  HTTP2_RESETS,
  HTTP2_RESETS_RATE,
  STREAMS_MAX,
} from "../../limit.ts";
import { NO_BODY } from "../../message/body.ts";
import type { RequestHead } from "../../message/head.ts";
import { type Header, headerValue } from "../../message/header.ts";
import {
  type GuestHttpOptions,
  type NamedRequest,
  nameRequest,
  refuseConnection,
  refuseMalformed,
  refuseNamed,
} from "../request.ts";
import { grpcReplies } from "../replies.ts";
import { readStreamHead, sizeOf, type StreamHead } from "./head.ts";
import { Allowance, type Http2Room } from "./room.ts";
import { GuestStream, StreamOutlet } from "./stream.ts";

/** Most streams that were reset by this side and whose frames may still be on their way. */
const RESET_IDS_MAX = 4 * STREAMS_MAX;

/** Frames that ask for something, are bounded by other limits, or answer this side. */
const USEFUL: ReadonlySet<number> = new Set([
  h2.HEADERS,
  h2.CONTINUATION,
  h2.RST_STREAM,
  h2.GOAWAY,
  h2.WINDOW_UPDATE,
]);

/** A fault of a guest whose frames cost more than they do. */
function flood(reason: string): h2.Http2Fault {
  return new h2.Http2Fault(reason, h2.ENHANCE_YOUR_CALM);
}

/** Serves one HTTP/2 connection until it ends. */
export class GuestHttp2 extends h2.Http2Peer<GuestStream> {
  readonly #options: GuestHttpOptions;
  readonly #room: Http2Room;
  readonly #running = new Set<Promise<void>>();
  /** streams that this side has reset: frames for them are no fault */
  readonly #resetIds = new Set<number>();
  readonly #resets: Allowance;
  readonly #idleFrames: Allowance;
  /** the guest's last stream */
  #last = 0;
  /** no further streams: either side has announced the end */
  #isLeaving = false;
  /** `bytes` that hold no memory any more, since the last update of the connection's window */
  #restored = 0;
  #granted = GUEST_CONNECTION_WINDOW;
  #closing: Promise<void> = Promise.resolve();
  #failure?: unknown;

  constructor(connection: BufferedConnection, options: GuestHttpOptions, room: Http2Room) {
    super(connection, options.timeouts);
    this.#options = options;
    this.#room = room;
    const { now } = connection.deadline.watch;
    this.#resets = new Allowance(HTTP2_RESETS, HTTP2_RESETS_RATE, now);
    this.#idleFrames = new Allowance(HTTP2_IDLE_FRAMES, HTTP2_IDLE_FRAMES_RATE, now);
  }

  /** @throws {SbxError} `ledger.unavailable`, and other failures of this host */
  async serve(): Promise<void> {
    const hasRoom = this.#room.enter();
    try {
      if (!hasRoom) this.fail(flood("more HTTP/2 connections than a VM may have"));
      else if (await this.#begin()) await this.run();
      await this.#closing;
      await Promise.all(this.#running);
      if (this.#failure) throw this.#failure;
    } finally {
      if (hasRoom) this.#room.leave();
      this.connection.close();
    }
  }

  override fail(error: Error): void {
    if (this.ended) return;
    this.ended = true;
    const reason = this.connection.timedOut ? new ConnectionLost("was idle for too long", true) : error;
    for (const stream of [...this.streams.values()]) stream.fail(reason);
    this.window.close();
    if (error instanceof MessageFault) this.#closing = this.#closeFor(error);
    else this.connection.close();
  }

  /** Removes a stream that has ended. */
  forget(stream: GuestStream, isReset: boolean): void {
    this.streams.delete(stream.id);
    if (isReset) {
      this.#resetIds.add(stream.id);
      if (this.#resetIds.size > RESET_IDS_MAX) this.#resetIds.delete(this.#resetIds.values().next().value!);
    }
    if (this.streams.size > 0 || this.ended) return;
    if (this.#isLeaving) this.#leave();
    else this.#awaitNext();
  }

  /** @throws {h2.Http2Fault} a flood */
  countReset(): void {
    if (!this.#resets.take(Date.now())) {
      throw flood("more streams that are reset than a client has use for");
    }
  }

  /** Clients measure their windows by a ping with each part of a response, as gRPC for Go does. */
  countSent(): void {
    this.#idleFrames.give();
  }

  restore(count: number): void {
    this.#restored += count;
    if (this.#restored < GUEST_CONNECTION_WINDOW / 2 || this.ended) return;
    this.control(h2.numberFrame(h2.WINDOW_UPDATE, 0, this.#restored));
    this.#granted += this.#restored;
    this.#restored = 0;
  }

  /** The guest opens odd streams, in order. */
  protected override isIdle(stream: number, type: number): boolean {
    if (type === h2.PRIORITY) return false;
    const mayOpen = type === h2.HEADERS || type === h2.CONTINUATION;
    return stream % 2 === 0 || stream > this.#last && !mayOpen;
  }

  protected override count(frame: h2.Frame): void {
    const { type, flags } = frame;
    if (dependsOnItself(frame)) throw new h2.Http2Fault("a stream that depends on itself", h2.PROTOCOL_ERROR);
    const isUseful = USEFUL.has(type) || type === h2.SETTINGS && flags & h2.ACK ||
      type === h2.DATA && (h2.contentOf(frame).length > 0 || flags & h2.END_STREAM);
    if (!isUseful && !this.#idleFrames.take(Date.now())) {
      throw flood("more frames without a use than a client sends");
    }
  }

  protected override data(frame: h2.Frame, content: Uint8Array, stream: GuestStream | undefined): void {
    const { length } = frame.payload;
    this.#granted -= length;
    if (this.#granted < 0) throw new h2.Http2Fault("more data than the window allows", h2.FLOW_CONTROL_ERROR);
    if (stream) return stream.data(content, length, (frame.flags & h2.END_STREAM) !== 0);
    this.#requireReset(frame.stream, "DATA");
    this.restore(length);
  }

  protected override headers(id: number, fields: Header[], endsStream: boolean): void {
    const stream = this.streams.get(id);
    if (stream) return stream.trailers(fields, endsStream);
    if (id <= this.#last) return this.#requireReset(id, "HEADERS");
    if (this.#isLeaving) return;
    this.#last = id;
    if (this.streams.size >= STREAMS_MAX || this.#running.size >= 2 * STREAMS_MAX || !this.#room.hasRoom) {
      // A client that counts on more streams than were offered is refused them, and may repeat them.
      this.#resetIds.add(id);
      this.control(h2.numberFrame(h2.RST_STREAM, id, h2.REFUSED_STREAM));
      return this.countReset();
    }
    this.connection.deadline.off();
    this.#open(id, fields, endsStream);
  }

  protected override goAway(): void {
    this.#isLeaving = true;
    if (this.streams.size === 0) this.#leave();
  }

  protected override setting(id: number, value: number): void {
    if (id === h2.ENABLE_PUSH && value > 1) {
      throw new h2.Http2Fault("settings out of range", h2.PROTOCOL_ERROR);
    }
    super.setting(id, value);
  }

  /** Reads the preface and sends the settings. @returns false without a preface */
  async #begin(): Promise<boolean> {
    this.connection.deadline.set(this.timeouts.head);
    try {
      if (!await beginsHttp2(this.connection)) {
        this.fail(new h2.Http2Fault("an HTTP/2 connection without its preface", h2.PROTOCOL_ERROR));
        return false;
      }
    } catch (error) {
      this.fail(error as Error);
      return false;
    }
    this.connection.skip(h2.PREFACE.length);
    this.control(h2.settingsFrame([
      [h2.MAX_CONCURRENT_STREAMS, STREAMS_MAX],
      [h2.INITIAL_WINDOW_SIZE, GUEST_STREAM_WINDOW],
      [h2.MAX_HEADER_LIST_SIZE, HEAD_MAX],
      [h2.ENABLE_CONNECT_PROTOCOL, 1],
    ]));
    this.control(h2.numberFrame(h2.WINDOW_UPDATE, 0, GUEST_CONNECTION_WINDOW - h2.WINDOW));
    this.#awaitNext();
    return true;
  }

  /** Waits for another request, and leaves when none comes. */
  #awaitNext(): void {
    this.connection.deadline.set(this.timeouts.keepAlive);
    this.connection.onTimeout = () => {
      if (this.streams.size === 0) this.#leave();
    };
  }

  /** Ends the connection, whose streams have all been served. */
  #leave(): void {
    if (this.ended) return;
    this.ended = true;
    this.window.close();
    this.#closing = this.#sayGoodbye(h2.NO_ERROR);
  }

  async #closeFor(fault: MessageFault): Promise<void> {
    try {
      this.#record(fault);
    } catch (error) {
      this.#failure ??= error;
    }
    await this.#sayGoodbye(fault instanceof h2.Http2Fault ? fault.code : h2.PROTOCOL_ERROR);
  }

  #record(fault: MessageFault): void {
    const isFlood = fault instanceof h2.Http2Fault && fault.code === h2.ENHANCE_YOUR_CALM;
    if (!isFlood) return void refuseMalformed(this.#options, undefined, fault, "RFC 9113");
    refuseConnection(this.#options, undefined, {
      id: "guard-http2-flood",
      reason: `the HTTP/2 connection was ended: ${fault.reason}`,
      remedy: "send requests, and fewer frames that ask for nothing",
    });
  }

  /** Sends what waits and the reason of the end. */
  async #sayGoodbye(code: number): Promise<void> {
    this.connection.onTimeout = undefined;
    this.connection.deadline.set(this.timeouts.close);
    await this.write(h2.goAwayFrame(code, this.#last)).then(
      () => this.connection.closeWrite(),
      ignore("the connection is closed either way"),
    );
    this.connection.close();
  }

  /** @throws {h2.Http2Fault} for a stream that the guest itself has ended */
  #requireReset(id: number, type: string): void {
    if (this.#resetIds.has(id)) return;
    throw new h2.Http2Fault(`a ${type} frame of a stream that has ended`, h2.STREAM_CLOSED);
  }

  #open(id: number, fields: Header[], endsStream: boolean): void {
    let read: StreamHead | MessageFault;
    try {
      read = readStreamHead(fields, this.#options.flow.scheme);
      if (endsStream && read.isSocket) throw new MessageFault("a WebSocket on a stream that has ended");
      if (endsStream && read.length) throw new MessageFault("the body is shorter than its content-length");
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      read = error;
    }
    const length = read instanceof MessageFault ? undefined : read.length;
    const isStream = !(read instanceof MessageFault) && (read.isSocket || isGrpc(read.head.headers));
    const idleMs = isStream ? this.timeouts.relay : this.timeouts.body;
    const stream = new GuestStream(this, id, { length, endsStream, idleMs });
    this.streams.set(id, stream);
    if (read instanceof MessageFault) this.countReset();
    const running = this.#room.hold(() => this.#serveStream(stream, read, sizeOf(fields))).catch((error) => {
      this.#failure ??= error;
      this.fail(error);
    }).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #serveStream(stream: GuestStream, read: StreamHead | MessageFault, size: number): Promise<void> {
    try {
      if (read instanceof MessageFault) await this.#refuseMalformed(stream, undefined, read);
      else await this.#serveRequest(stream, read, size);
    } catch (error) {
      // A lost client gets no answer.
      if (!(error instanceof ClientLost || error instanceof ConnectionLost)) throw error;
    } finally {
      stream.abort(h2.CANCEL);
    }
  }

  async #serveRequest(stream: GuestStream, { head, isSocket }: StreamHead, size: number): Promise<void> {
    const { context, timeouts } = this.#options;
    let named: NamedRequest;
    try {
      // What follows the head of a WebSocket is no body.
      named = nameRequest(this.#options, head, isSocket ? NO_BODY : stream.body, size);
    } catch (error) {
      if (error instanceof MessageFault) return await this.#refuseMalformed(stream, head, error);
      throw error;
    }
    const { refusal } = named;
    const request = { ...named.request, http2: true };
    const accept = headerValue(head.headers, "accept");
    const outlet = new StreamOutlet(stream, {
      method: head.method,
      ...grpcReplies(head.headers, timeouts.held),
      ...(accept !== undefined && { accept }),
      ...(request.expects && { expects: true }),
      ...(isSocket && { isSocket }),
    });
    if (refusal) return await outlet.sendBlock(refuseNamed(this.#options, request, refusal));
    try {
      await new HttpExchange(context, request, outlet).run();
    } catch (error) {
      const fault = error instanceof ClientLost && error.cause instanceof MessageFault
        ? error.cause
        : undefined;
      if (!fault) throw error;
      if (!stream.begun) await this.#refuseMalformed(stream, head, fault);
    }
  }

  /** Refuses a request that cannot be read safely; the connection serves its other streams. */
  async #refuseMalformed(
    stream: GuestStream,
    head: RequestHead | undefined,
    fault: MessageFault,
  ): Promise<void> {
    const decision = refuseMalformed(this.#options, head, fault, "RFC 9113");
    const outlet = new StreamOutlet(stream, { method: head?.method ?? "" });
    stream.break(fault);
    await outlet.sendJson(400, guestRefusal(decision));
  }
}

/** A stream that depends on itself, by its priority: ignored otherwise (RFC 9113 §5.3.2). */
function dependsOnItself({ type, flags, stream, payload }: h2.Frame): boolean {
  const at = type === h2.PRIORITY
    ? 0
    : type === h2.HEADERS && flags & h2.WITH_PRIORITY
    ? (flags & h2.PADDED ? 1 : 0)
    : -1;
  if (at < 0 || payload.length < at + 4) return false;
  const dependency = new DataView(payload.buffer, payload.byteOffset + at).getUint32(0) & h2.WINDOW_MAX;
  return dependency === stream;
}

/**
 * Reads on while the bytes may become the HTTP/2 preface.
 * @returns true for the whole preface, still unread
 */
export async function beginsHttp2(connection: BufferedConnection): Promise<boolean> {
  while (true) {
    const { unread } = connection;
    const first = unread.subarray(0, h2.PREFACE.length);
    if (!first.every((byte, at) => byte === h2.PREFACE[at])) return false;
    if (first.length === h2.PREFACE.length) return true;
    if (!await connection.fill()) return false;
  }
}
