/** What one stream receives and may send: its body, and the windows of flow control. */
import { MessageFault } from "../fault.ts";
import type { BodySource } from "../message/body.ts";
import { ByteBuffer } from "../message/bytes.ts";
import type { Header } from "../message/header.ts";
import { FLOW_CONTROL_ERROR, Http2Fault, WINDOW_MAX } from "./frame.ts";

/** Body of one stream. Its unread bytes are bounded by the stream's window. */
export class Http2Body implements BodySource {
  readonly length?: number;
  readonly #onWait: () => void;
  readonly #onRead: (count: number) => void;
  #unread = new ByteBuffer();
  #size = 0;
  #trailers: readonly Header[] = [];
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

  /**
   * Received fields behind the body; none before its end was read: a reader may have
   * written how long it is by then.
   */
  get trailers(): readonly Header[] {
    return this.done ? this.#trailers : [];
  }

  /** Tests whether every byte that the head declared is here. */
  get isWhole(): boolean {
    return this.#size === this.length;
  }

  get ready(): boolean {
    return this.#unread.count > 0;
  }

  /** Number of received bytes that were not read. */
  get unread(): number {
    return this.#unread.count;
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
    this.#trailers = trailers;
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

  /** @throws {Http2Fault} for a window beyond the maximum */
  add(count: number): void {
    this.#remaining += count;
    if (this.#remaining > WINDOW_MAX) {
      throw new Http2Fault("a window beyond the maximum", FLOW_CONTROL_ERROR);
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
