import { ConnectionLost } from "./fault.ts";
import { NOTHING } from "./message/gathered.ts";
import { putLatin1 } from "./message/latin1.ts";
import type { Deadline, Watch } from "./watch.ts";

/** What a connection is made of: a vsock stream, TCP, TLS. */
export interface ByteStream {
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  closeWrite?(): Promise<void>;
  close(): void;
}

/** Buffers begin small, because most connections are many and quiet; one that is filled by a read grows. */
const BUFFER_MIN = 4 * 1024;
const BUFFER_MAX = 128 * 1024;
/** Size that a quiet connection may keep. */
const BUFFER_KEPT = 16 * 1024;

/** A connection with a read buffer and a deadline: a wait that is too long closes it. */
export class Connection {
  readonly deadline: Deadline;
  closed = false;
  /** it was closed because time was up */
  timedOut = false;
  /** what happens once when time is up, instead of closing */
  late?: () => void;
  readonly #stream: ByteStream;
  readonly #watch: Watch;
  #buffer: Uint8Array<ArrayBuffer>;
  #out = NOTHING;
  #start = 0;
  #end: number;
  #pending?: Promise<boolean>;
  #reading = false;
  #gone?: () => void;
  #onClose?: () => void;

  /** @param first bytes that were read from the stream already */
  constructor(stream: ByteStream, watch: Watch, first: Uint8Array = NOTHING) {
    this.#stream = stream;
    this.#watch = watch;
    this.#buffer = new Uint8Array(Math.max(BUFFER_MIN, first.length));
    this.#buffer.set(first);
    this.#end = first.length;
    this.deadline = watch.add(() => {
      const { late } = this;
      this.late = undefined;
      if (late) return late();
      this.timedOut = true;
      this.close();
    });
  }

  /** Bytes that are here and not yet taken. A view, good until the next {@linkcode fill} or {@linkcode listen}. */
  get waiting(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  get count(): number {
    return this.#end - this.#start;
  }

  /** Drops the first `count` waiting bytes; views of them stay good until the next {@linkcode fill}. */
  skip(count: number): void {
    this.#start += count;
    // A read ahead whose bytes were seen is no news to the next wait.
    if (!this.#reading) this.#pending = undefined;
  }

  /** Waits for more bytes; false when the other end has closed its side. @throws {ConnectionLost} */
  fill(): Promise<boolean> {
    const pending = this.#pending ?? this.#read();
    this.#pending = undefined;
    this.#gone = undefined;
    return pending;
  }

  /** As {@linkcode fill}, for who may not wait to its end: the next {@linkcode fill} is the same. */
  ahead(): Promise<boolean> {
    return this.#pending ??= this.#read();
  }

  /** Reads on while nobody waits for bytes, to notice when the other end goes away; the next {@linkcode fill} gets them. */
  listen(gone: () => void): void {
    this.#gone = gone;
    if (this.#pending) return;
    const pending = this.#pending = this.#read();
    const tell = () => {
      if (this.#pending === pending) this.#gone?.();
    };
    pending.then((more) => {
      if (!more) tell();
    }, tell);
  }

  /** Calls back for whatever comes while nothing should: any byte, and the end. */
  park(over: () => void): void {
    this.shrink();
    this.#gone = over;
    const pending = this.#pending = this.#read();
    const tell = () => {
      if (this.#pending === pending) this.#gone?.();
    };
    pending.then(tell, tell);
  }

  /** Gives a buffer that grew back, before a wait that may be long. */
  shrink(): void {
    if (this.#out.length > BUFFER_KEPT) this.#out = NOTHING;
    if (this.count > 0 || this.#pending || this.#buffer.length <= BUFFER_KEPT) return;
    this.#buffer = new Uint8Array(BUFFER_MIN);
    this.#start = this.#end = 0;
  }

  /** No more callbacks. */
  unlisten(): void {
    this.#gone = undefined;
  }

  /** Writes all of `bytes`. @throws {ConnectionLost} */
  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;) {
        at += await this.#stream.write(at === 0 ? bytes : bytes.subarray(at));
      }
    } catch (error) {
      throw this.#lost(error);
    }
  }

  /** Writes text (one char a byte), bytes and text as one piece, through a buffer that is used again. @throws {ConnectionLost} */
  writeJoined(before: string, bytes?: Uint8Array, behind = ""): Promise<void> {
    if (bytes && bytes.length > BUFFER_MAX) return this.#writeApart(before, bytes, behind);
    const size = before.length + (bytes?.length ?? 0) + behind.length;
    if (this.#out.length < size) this.#out = new Uint8Array(Math.max(size, BUFFER_MIN));
    let at = putLatin1(before, this.#out, 0);
    if (bytes) {
      this.#out.set(bytes, at);
      at += bytes.length;
    }
    if (behind !== "") putLatin1(behind, this.#out, at);
    return this.write(this.#out.subarray(0, size));
  }

  /** What is long is not copied for the sake of a write less. */
  async #writeApart(before: string, bytes: Uint8Array, behind: string): Promise<void> {
    if (before !== "") await this.writeJoined(before);
    await this.write(bytes);
    if (behind !== "") await this.writeJoined(behind);
  }

  /** No more bytes will be written. */
  async closeWrite(): Promise<void> {
    await this.#stream.closeWrite?.().catch(() => {});
  }

  /** Hands the stream over to somebody else. @returns what was read of it and not taken */
  detach(): Uint8Array {
    this.closed = true;
    this.#watch.remove(this.deadline);
    return this.waiting;
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
      // it was closed under us
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
      throw this.#lost(error);
    } finally {
      this.#reading = false;
    }
    if (read === null) return false;
    this.#end += read;
    return true;
  }

  #makeRoom(): void {
    if (this.#start === this.#end) {
      // A buffer that one read filled was too small.
      const bigger = this.#end === this.#buffer.length && this.#end > 0 && this.#end < BUFFER_MAX;
      if (bigger) this.#buffer = new Uint8Array(Math.min(this.#buffer.length * 4, BUFFER_MAX));
      this.#start = this.#end = 0;
    } else if (this.#buffer.length - this.#end < BUFFER_MIN / 2) {
      const size = this.count > this.#buffer.length / 2 ? this.#buffer.length * 2 : this.#buffer.length;
      const moved = new Uint8Array(size);
      moved.set(this.waiting);
      this.#end -= this.#start;
      this.#start = 0;
      this.#buffer = moved;
    }
  }

  #lost(cause: unknown): ConnectionLost {
    if (this.timedOut) return new ConnectionLost("did nothing for too long", true, cause);
    return new ConnectionLost(this.closed ? "was closed" : "broke the connection", false, cause);
  }
}
