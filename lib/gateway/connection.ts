/** Bytes that one read may take from the service, and the longest head that an answer may have. */
export const READ_SIZE = 64 * 1024;

/** The service closed a connection before it answered anything on it. */
export class ConnectionLost extends Error {
  /** @param unsent true when the request surely never reached the service */
  constructor(readonly unsent: boolean, cause?: unknown) {
    super("connection lost", { cause });
  }
}

/**
 * One HTTP/1.1 connection to the service, kept between requests. While it is parked a read is pending on it, so that
 * the service's going away is noticed at once, and the next answer's first read has begun before it is asked for.
 */
export class Connection {
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

  /** Bytes that are here and not yet taken. They are overwritten by the next {@linkcode fill}. */
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
    const taken = this.#buffer.slice(this.#start, Math.min(this.#end, this.#start + most));
    this.skip(taken.length);
    return taken;
  }

  /** Waits for more bytes. False when the service has closed; true also when the buffer is full. */
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

  /** Waits for its next request; calls `lost` when anything happens before that. */
  park(lost: () => void): void {
    this.#parked = true;
    this.#reading = this.#conn.read(this.#buffer);
    const over = () => {
      if (this.#parked) lost();
    };
    this.#reading.then(over, over);
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
