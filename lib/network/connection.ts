/** Buffered reads and writes with deadlines, over any byte stream: vsock, TCP or TLS. */
import { ignore } from "../base/error/mod.ts";
import { ConnectionLost } from "./fault.ts";
import { NO_BYTES, putLatin1 } from "./message/bytes.ts";
import { SWEEP_MS } from "./limit.ts";

/** Byte stream below a connection: vsock, TCP or TLS. */
export interface ByteStream {
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  closeWrite?(): Promise<void>;
  /**
   * Gives the guest the reason for the end of its connection and waits for its reset; call before `close`.
   */
  refuse?(line: string): Promise<void>;
  close(): void;
}

/**
 * Buffer sizes in `bytes`: small at first, because most connections are quiet; a read
 * that fills the buffer grows it.
 */
const BUFFER_MIN = 4 * 1024;
const BUFFER_MAX = 128 * 1024;
/** Largest buffer of a quiet connection. */
const BUFFER_IDLE_MAX = 16 * 1024;

/** Connection with a read buffer and a deadline. A deadline that passes closes it. */
export class BufferedConnection {
  readonly deadline: Deadline;
  closed = false;
  /** closed by its deadline */
  timedOut = false;
  /** the peer ended TLS by FIN alone, without close_notify: bytes at its end may be missing */
  noCloseNotify = false;
  /** called once when the deadline passes, instead of closing */
  onTimeout?: () => void;
  readonly #stream: ByteStream;
  readonly #watch: DeadlineWatch;
  #buffer: Uint8Array<ArrayBuffer>;
  #out = NO_BYTES;
  #start = 0;
  #end: number;
  #pending?: Promise<boolean>;
  #reading = false;
  #onGone?: () => void;
  #onClose?: () => void;
  #look?: (bytes: Uint8Array) => string | undefined;

  /** @param first bytes already read from the stream */
  constructor(stream: ByteStream, watch: DeadlineWatch, first: Uint8Array = NO_BYTES) {
    this.#stream = stream;
    this.#watch = watch;
    this.#buffer = new Uint8Array(Math.max(BUFFER_MIN, first.length));
    this.#buffer.set(first);
    this.#end = first.length;
    this.deadline = watch.add(() => {
      const { onTimeout } = this;
      this.onTimeout = undefined;
      if (onTimeout) return onTimeout();
      this.timedOut = true;
      this.close();
    });
  }

  /**
   * Bytes received and not yet skipped. A view, valid until the next {@linkcode fill} or {@linkcode listen}.
   */
  get unread(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  /** Number of unread bytes. */
  get count(): number {
    return this.#end - this.#start;
  }

  /** Drops the first `count` unread bytes; views of them stay valid until the next {@linkcode fill}. */
  skip(count: number): void {
    this.#start += count;
    // The bytes of a finished prefetch have been seen: the next wait is for new ones.
    if (!this.#reading) this.#pending = undefined;
  }

  /**
   * Shows all bytes that are unread and received from now on.
   *
   * @param look returns why the connection ends there, as a predicate of the peer; `undefined` goes on
   * @throws {ConnectionLost} for the unread ones
   */
  inspect(look: (bytes: Uint8Array) => string | undefined): void {
    this.#look = look;
    if (this.count > 0) this.#show(this.#start);
  }

  #show(from: number): void {
    const why = this.#look?.(this.#buffer.subarray(from, this.#end));
    if (why === undefined) return;
    this.#start = this.#end;
    this.close();
    throw new ConnectionLost(why);
  }

  /** Waits for more bytes; false when the peer has closed its side. @throws {ConnectionLost} */
  fill(): Promise<boolean> {
    const pending = this.#pending ?? this.#read();
    this.#pending = undefined;
    this.#onGone = undefined;
    return pending;
  }

  /** Starts a {@linkcode fill} that may be abandoned: the next {@linkcode fill} waits for the same read. */
  prefetch(): Promise<boolean> {
    return this.#pending ??= this.#read();
  }

  /**
   * Reads on while no bytes are needed, to notice a peer that goes away; the next
   * {@linkcode fill} gets the bytes.
   */
  listen(onGone: () => void): void {
    this.#onGone = onGone;
    if (this.#pending) return;
    const pending = this.#pending = this.#read();
    const notify = () => {
      if (this.#pending === pending) this.#onGone?.();
    };
    pending.then((more) => {
      if (!more) notify();
    }, notify);
  }

  /** Calls back when an idle connection ends, or receives bytes that no request asked for. */
  park(onGone: () => void): void {
    this.shrink();
    this.#onGone = onGone;
    const pending = this.#pending = this.#read();
    const notify = () => {
      if (this.#pending === pending) this.#onGone?.();
    };
    pending.then(notify, notify);
  }

  /** Releases buffers that grew, before a wait that may be long. */
  shrink(): void {
    if (this.#out.length > BUFFER_IDLE_MAX) this.#out = NO_BYTES;
    if (this.count > 0 || this.#pending || this.#buffer.length <= BUFFER_IDLE_MAX) return;
    this.#buffer = new Uint8Array(BUFFER_MIN);
    this.#start = this.#end = 0;
  }

  /** Ends the callback of {@linkcode listen} and {@linkcode park}. */
  unlisten(): void {
    this.#onGone = undefined;
  }

  /** Writes all of `bytes`. @throws {ConnectionLost} */
  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;) {
        at += await this.#stream.write(at === 0 ? bytes : bytes.subarray(at));
      }
    } catch (error) {
      throw this.#lostError(error);
    }
  }

  /** Writes byte text, bytes and byte text in one write, through a reused buffer. @throws {ConnectionLost} */
  writeJoined(before: string, bytes?: Uint8Array, after = ""): Promise<void> {
    if (bytes && bytes.length > BUFFER_MAX) return this.#writeSeparately(before, bytes, after);
    const size = before.length + (bytes?.length ?? 0) + after.length;
    if (this.#out.length < size) this.#out = new Uint8Array(Math.max(size, BUFFER_MIN));
    let at = putLatin1(before, this.#out, 0);
    if (bytes) {
      this.#out.set(bytes, at);
      at += bytes.length;
    }
    if (after !== "") putLatin1(after, this.#out, at);
    return this.write(this.#out.subarray(0, size));
  }

  /** For bytes too long to copy for the sake of one write less. */
  async #writeSeparately(before: string, bytes: Uint8Array, after: string): Promise<void> {
    if (before !== "") await this.writeJoined(before);
    await this.write(bytes);
    if (after !== "") await this.writeJoined(after);
  }

  /** Closes the writing side. */
  async closeWrite(): Promise<void> {
    await this.#stream.closeWrite?.().catch(ignore("the other side has closed the stream"));
  }

  /** Gives up the stream without closing it. @returns its unread bytes */
  detach(): Uint8Array {
    this.closed = true;
    this.#watch.remove(this.deadline);
    return this.unread;
  }

  onClose(callback: () => void): void {
    this.#onClose = callback;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#watch.remove(this.deadline);
    try {
      this.#stream.close();
    } catch {
      // closed already
    }
    this.#onClose?.();
  }

  async #read(): Promise<boolean> {
    this.#makeRoom();
    const room = this.#buffer.subarray(this.#end);
    let read: number | null;
    this.#reading = true;
    try {
      read = await this.#stream.read(room);
    } catch (error) {
      if (!(error instanceof Deno.errors.UnexpectedEof)) throw this.#lostError(error);
      this.noCloseNotify = true;
      read = null;
    } finally {
      this.#reading = false;
    }
    if (read === null) return false;
    this.#end += read;
    if (this.#look) this.#show(this.#end - read);
    return true;
  }

  #makeRoom(): void {
    if (this.#start === this.#end) {
      // A buffer that one read filled was too small.
      const isTooSmall = this.#end === this.#buffer.length && this.#end > 0 && this.#end < BUFFER_MAX;
      if (isTooSmall) this.#buffer = new Uint8Array(Math.min(this.#buffer.length * 4, BUFFER_MAX));
      this.#start = this.#end = 0;
    } else if (this.#buffer.length - this.#end < BUFFER_MIN / 2) {
      const size = this.count > this.#buffer.length / 2 ? this.#buffer.length * 2 : this.#buffer.length;
      const buffer = new Uint8Array(size);
      buffer.set(this.unread);
      this.#end -= this.#start;
      this.#start = 0;
      this.#buffer = buffer;
    }
  }

  #lostError(cause: unknown): ConnectionLost {
    if (this.timedOut) return new ConnectionLost("was idle for too long", true, cause);
    return new ConnectionLost(this.closed ? "was closed" : "dropped the connection", false, cause);
  }
}

// Deadlines of many connections on one timer: activity only writes a number.

/** The time at which a connection, a stream or an attempt is given up. */
export class Deadline {
  /** unix `ms`; `Infinity` while off */
  at = Infinity;

  constructor(readonly watch: DeadlineWatch, readonly expire: () => void) {}

  /** Expires in `ms` from now. */
  set(ms: number): void {
    this.at = this.watch.now + ms;
  }

  off(): void {
    this.at = Infinity;
  }
}

/** Checks every deadline twice a second, while there are any. */
export class DeadlineWatch {
  /** unix `ms`, at most {@linkcode SWEEP_MS} behind */
  now = Date.now();
  readonly #deadlines = new Set<Deadline>();
  #timer?: ReturnType<typeof setInterval>;

  constructor(readonly sweepMs = SWEEP_MS) {}

  /** @param expire called when the deadline has passed; it may set the deadline again */
  add(expire: () => void): Deadline {
    const deadline = new Deadline(this, expire);
    this.#deadlines.add(deadline);
    if (this.#timer === undefined) {
      this.now = Date.now();
      this.#timer = setInterval(() => this.#sweep(), this.sweepMs);
    }
    return deadline;
  }

  remove(deadline: Deadline): void {
    this.#deadlines.delete(deadline);
    if (this.#deadlines.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #sweep(): void {
    this.now = Date.now();
    for (const deadline of this.#deadlines) {
      if (deadline.at > this.now) continue;
      deadline.off();
      deadline.expire();
    }
  }
}
