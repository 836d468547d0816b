/** Sends the body of an HTTP/2 stream within its windows, for client and server. */
import type { Deadline } from "../connection.ts";
import { ConnectionLost } from "../fault.ts";
import type { Header } from "../message/header.ts";
import { NO_BYTES } from "../message/bytes.ts";
import { SendWindow } from "./body.ts";
import { dataFrames, FRAME_MAX, headerFrames } from "./frame.ts";
import { encodeHeaders } from "./hpack.ts";

/** Most `bytes` of a body in one write, with several frames: other streams wait for it. */
const WRITE_MAX = 4 * FRAME_MAX;

/** The connection that a stream sends on. */
export interface SendingPeer {
  readonly window: SendWindow;
  /** window of new streams, in `bytes` */
  readonly initialWindow: number;
  /** longest frame that the peer takes, in `bytes` */
  readonly frameMax: number;
  /** writes after pending writes */
  write(bytes: Uint8Array): Promise<void>;
}

/** The sending side of one stream: its frames go out within both windows. */
export class StreamSender {
  readonly window: SendWindow;
  readonly #peer: SendingPeer;
  readonly #id: number;
  readonly #deadline: Deadline;
  readonly #idleMs: number;
  #ended = false;

  /**
   * @param deadline of each write, which takes at most `idleMs`
   * @param onLast called once the last frame is on its way
   */
  constructor(
    peer: SendingPeer,
    id: number,
    deadline: Deadline,
    idleMs: number,
    readonly onLast?: () => void,
  ) {
    this.window = new SendWindow(peer.initialWindow);
    this.#peer = peer;
    this.#id = id;
    this.#deadline = deadline;
    this.#idleMs = idleMs;
  }

  /** Sends no more: waits for a window end with an error. */
  end(): void {
    this.#ended = true;
    this.window.close();
  }

  /** @throws {ConnectionLost} */
  headers(headers: readonly Header[], last: boolean): Promise<void> {
    this.#deadline.set(this.#idleMs);
    return this.#write(headerFrames(this.#id, encodeHeaders(headers), this.#frameMax, last), last);
  }

  /**
   * Headers and a whole short body in one write, where the windows have room for it.
   * @throws {ConnectionLost}
   */
  async whole(headers: readonly Header[], bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return await this.headers(headers, true);
    const written = this.headers(headers, false);
    await Promise.all([written, this.data(bytes, true)]);
  }

  /** Sends a piece of a body. @param last it is the last one @throws {ConnectionLost} */
  async data(piece: Uint8Array, last = false): Promise<void> {
    const { window } = this.#peer;
    for (let at = 0; at < piece.length;) {
      this.#deadline.set(this.#idleMs);
      while (this.window.remaining <= 0 || window.remaining <= 0) {
        await (this.window.remaining <= 0 ? this.window : window).more();
        if (this.#ended) break;
        if (window.closed) throw new ConnectionLost("was closed");
      }
      if (this.#ended) throw new ConnectionLost("was closed");
      const count = Math.min(piece.length - at, this.window.remaining, window.remaining, WRITE_MAX);
      this.window.take(count);
      window.take(count);
      const bytes = piece.subarray(at, at += count);
      const isLast = last && at === piece.length;
      await this.#write(dataFrames(this.#id, bytes, this.#frameMax, isLast), isLast);
    }
    if (piece.length === 0 && last) await this.#write(dataFrames(this.#id, NO_BYTES, FRAME_MAX, true), true);
  }

  #write(frames: Uint8Array, last: boolean): Promise<void> {
    const written = this.#peer.write(frames);
    if (last) this.onLast?.();
    return written;
  }

  /** Longer frames than the default would hold up other streams. */
  get #frameMax(): number {
    return Math.min(this.#peer.frameMax, FRAME_MAX);
  }
}
