/** Client side of HTTP/2: one connection to an upstream, with its streams. */
import { ignore } from "../../../base/error/mod.ts";
import type { BufferedConnection, Deadline } from "../../connection.ts";
import { ConnectionLost, MessageFault } from "../../fault.ts";
import * as h2 from "../../http2/mod.ts";
import { HEAD_MAX, type NetTimeouts, STREAM_WINDOW, STREAMS_MAX } from "../../limit.ts";
import type { Header } from "../../message/header.ts";
import type { OutgoingRequest } from "../upstream.ts";
import { Http2Exchange } from "./stream.ts";

/** Receive window of the whole connection in `bytes`. */
const CONNECTION_WINDOW = 16 * 1024 * 1024;

/** HTTP/2 connection to one upstream, with its streams. */
export class Http2Session extends h2.Http2Peer<Http2Exchange> {
  readonly #onEnd: () => void;
  /** id of the next stream */
  #next = 1;
  #streamsMax = STREAMS_MAX;
  /** waits for the upstream's first frame, its settings */
  readonly #greeting = Promise.withResolvers<void>();
  readonly #greetingDeadline: Deadline;
  #isLeaving = false;
  #received = 0;

  /** @param onEnd called once it takes no more streams */
  constructor(connection: BufferedConnection, timeouts: NetTimeouts, onEnd: () => void) {
    super(connection, timeouts);
    this.#onEnd = onEnd;
    this.#greetingDeadline = this.deadline(() => this.fail(new ConnectionLost("sent no settings", true)));
    this.#greetingDeadline.set(timeouts.connect);
    this.write(h2.PREFACE).catch(ignore("the reader of the connection reports its end"));
    this.control(h2.settingsFrame([
      [h2.ENABLE_PUSH, 0],
      [h2.INITIAL_WINDOW_SIZE, STREAM_WINDOW],
      [h2.MAX_HEADER_LIST_SIZE, HEAD_MAX],
    ]));
    this.control(h2.numberFrame(h2.WINDOW_UPDATE, 0, CONNECTION_WINDOW - h2.WINDOW));
    this.run();
  }

  /** Settles when the upstream's settings have come, or the session has ended. */
  get greeted(): Promise<void> {
    return this.#greeting.promise;
  }

  /** True while it takes another stream. */
  get hasRoom(): boolean {
    return !this.#isLeaving && !this.ended && this.streams.size < this.#streamsMax &&
      this.#next < h2.WINDOW_MAX;
  }

  /** Begins an exchange; only while it {@linkcode hasRoom}. */
  exchange(request: OutgoingRequest): Http2Exchange {
    const id = this.#next;
    this.#next += 2;
    this.connection.deadline.off();
    const stream = new Http2Exchange(this, id, request);
    this.streams.set(id, stream);
    stream.begin();
    return stream;
  }

  /** Removes a stream that has ended. */
  forget(stream: Http2Exchange): void {
    if (!this.streams.delete(stream.id) || this.streams.size > 0) return;
    if (this.#isLeaving) this.close();
    else this.connection.deadline.set(this.timeouts.idle);
  }

  close(): void {
    this.fail(new ConnectionLost("was closed"));
  }

  /** Takes no further stream; closes once the last one has ended. */
  retire(): void {
    this.#isLeaving = true;
    this.#onEnd();
    if (this.streams.size === 0) this.close();
  }

  override fail(error: Error): void {
    if (this.ended) return;
    this.ended = true;
    this.#endGreeting();
    this.#onEnd();
    const reason = this.connection.timedOut && this.streams.size > 0
      ? new ConnectionLost("was idle for too long", true)
      : error;
    for (const stream of [...this.streams.values()]) stream.fail(reason);
    this.window.close();
    if (!(error instanceof MessageFault)) return this.connection.close();
    // The upstream is notified before the end, unless it reads nothing.
    const code = error instanceof h2.Http2Fault ? error.code : h2.PROTOCOL_ERROR;
    this.connection.deadline.set(this.timeouts.close);
    this.write(h2.goAwayFrame(code)).catch(ignore("the connection is closed either way")).finally(() =>
      this.connection.close()
    );
  }

  /** The server opens no stream: push is switched off. */
  protected override isIdle(stream: number, type: number): boolean {
    return type !== h2.PRIORITY && (stream >= this.#next || stream % 2 === 0);
  }

  protected override data(frame: h2.Frame, content: Uint8Array, stream: Http2Exchange | undefined): void {
    // Padding counts too. Streams bound the unread bytes, so the connection's window is restored at once.
    this.#received += frame.payload.length;
    if (this.#received >= CONNECTION_WINDOW / 2) {
      this.control(h2.numberFrame(h2.WINDOW_UPDATE, 0, this.#received));
      this.#received = 0;
    }
    stream?.data(content, frame.payload.length, (frame.flags & h2.END_STREAM) !== 0);
  }

  protected override headers(stream: number, headers: Header[], endsStream: boolean): void {
    this.streams.get(stream)?.headers(headers, endsStream);
  }

  protected override greet(): void {
    this.#endGreeting();
  }

  #endGreeting(): void {
    this.connection.deadline.watch.remove(this.#greetingDeadline);
    this.#greeting.resolve();
  }

  protected override setting(id: number, value: number): void {
    if (id === h2.ENABLE_PUSH && value !== 0) {
      throw new h2.Http2Fault("settings out of range", h2.PROTOCOL_ERROR);
    }
    if (id === h2.MAX_CONCURRENT_STREAMS) this.#streamsMax = Math.min(value, STREAMS_MAX);
    super.setting(id, value);
  }

  protected override goAway({ payload }: h2.Frame): void {
    const last = new DataView(payload.buffer, payload.byteOffset).getUint32(0) & h2.WINDOW_MAX;
    this.#isLeaving = true;
    this.#onEnd();
    for (const stream of [...this.streams.values()]) if (stream.id > last) stream.refuse();
    if (this.streams.size === 0) this.close();
  }
}
