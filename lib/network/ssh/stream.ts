/** The bytes of an SSH connection for the library, which itself never waits for a slow peer. */
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import type { BufferedConnection } from "../connection.ts";
import { BACKLOG_MAX, SILENT_MAX } from "./limit.ts";

export class SshStream extends Duplex {
  readonly #connection: BufferedConnection;
  /** idle `ms`; absent: the connection's deadline stays as it is */
  idleMs?: number;
  #reading = false;
  /** received since something was sent */
  #unanswered = 0;
  /** given to channels, and not sent as far as known */
  #given = 0;
  #progress = Promise.withResolvers<void>();
  /** settles when the stream is closed */
  readonly gone: Promise<void>;

  constructor(connection: BufferedConnection) {
    // As a socket: the end of one side is the end of both.
    super({ highWaterMark: 64 * 1024, allowHalfOpen: false });
    this.#connection = connection;
    this.gone = new Promise((resolve) => this.once("close", resolve));
    // The library has no listener after a fault of the protocol.
    this.on("error", () => {});
  }

  /** Counts bytes that a channel gets now. */
  give(bytes: number): void {
    this.#given += bytes;
  }

  /**
   * Waits until the peer has taken most of its bytes. A peer may grant any window, and a key exchange that it
   * does not end holds everything back.
   */
  async room(): Promise<void> {
    while (!this.destroyed && Math.max(this.#given, this.writableLength) > BACKLOG_MAX) {
      await this.#progress.promise;
    }
  }

  override _read(): void {
    if (!this.#reading) this.#pull();
  }

  async #pull(): Promise<void> {
    this.#reading = true;
    try {
      // Every packet of the peer may make an answer.
      while (!this.destroyed && this.writableLength > BACKLOG_MAX) await this.#progress.promise;
      const connection = this.#connection;
      if (connection.count === 0 && !await connection.fill()) {
        this.push(null);
        return;
      }
      const bytes = Buffer.from(connection.unread);
      connection.skip(bytes.length);
      this.#active();
      this.#unanswered += bytes.length;
      if (this.#unanswered > SILENT_MAX) throw new Error("a peer that reads no answers");
      // The push asks for the next bytes at once.
      this.#reading = false;
      this.push(bytes);
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  override _write(bytes: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    this.#connection.write(bytes).then(() => {
      this.#active();
      this.#unanswered = 0;
      this.#given = Math.max(0, this.#given - bytes.length);
      done();
      this.#advance();
    }, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#connection.closeWrite().then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#connection.close();
    this.#advance();
    done(error);
  }

  #active(): void {
    if (this.idleMs !== undefined) this.#connection.deadline.set(this.idleMs);
  }

  #advance(): void {
    this.#progress.resolve();
    this.#progress = Promise.withResolvers();
  }
}
