/** `bytes` of one read from the service, and of the longest response head. */
export const READ_SIZE = 64 * 1024;

/** The service closed a connection before it began to respond. */
export class ConnectionLost extends Error {
  /** @param unsent true when the request certainly did not reach the service */
  constructor(readonly unsent: boolean, cause?: unknown) {
    super("connection lost", { cause });
  }
}

/**
 * One HTTP/1.1 connection to the service, reused for several requests. A read is pending while it is parked, which
 * detects a closed service at once and has already started the first read of the next response.
 */
export class ServiceConnection {
  readonly #conn: Deno.UnixConn;
  readonly #buffer = new Uint8Array(READ_SIZE);
  #start = 0;
  #end = 0;
  #reading?: Promise<number | null>;
  #parked = false;
  closed = false;

  constructor(conn: Deno.UnixConn) {
    this.#conn = conn;
  }

  /** Bytes that were read but not yet taken; overwritten by the next {@linkcode fill}. */
  get waiting(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  /** Drops the first `count` waiting bytes. */
  skip(count: number): void {
    this.#start += count;
    if (this.#start === this.#end) this.#start = this.#end = 0;
  }

  /** Takes up to `most` waiting bytes, as a copy. */
  take(most: number): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffer.slice(this.#start, Math.min(this.#end, this.#start + most));
    this.skip(bytes.length);
    return bytes;
  }

  /**
   * Waits for more bytes.
   *
   * @returns false when the service has closed the connection; true also when the buffer is full
   */
  async fill(): Promise<boolean> {
    if (this.#start > 0) {
      this.#buffer.copyWithin(0, this.#start, this.#end);
      this.#end -= this.#start;
      this.#start = 0;
    }
    if (this.#end === READ_SIZE) return true;
    const reading = this.#reading ?? this.#conn.read(this.#buffer.subarray(this.#end));
    this.#reading = undefined;
    const count = await reading;
    if (count === null) return false;
    this.#end += count;
    return true;
  }

  /** Writes all of `bytes`. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.#conn.write(at === 0 ? bytes : bytes.subarray(at));
  }

  /** Keeps the connection for its next request; calls `onUnusable` when it closes or receives bytes before that. */
  park(onUnusable: () => void): void {
    this.#parked = true;
    this.#reading = this.#conn.read(this.#buffer);
    const finish = () => {
      if (this.#parked) onUnusable();
    };
    this.#reading.then(finish, finish);
  }

  unpark(): void {
    this.#parked = false;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#parked = false;
    this.#conn.close();
  }
}
