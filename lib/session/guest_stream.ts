import { backgroundDelay, timeLimit } from "../base/time/mod.ts";
import type { ByteStream } from "../network/mod.ts";

/** `ms` in which a guest resets a refused connection. */
const REFUSE_MS = timeLimit(1000);

/**
 * One TCP connection of a guest's program, as sbx-net-proxy carries it. A vhost-user vsock loses half-closes, so the end
 * of the program's side comes on a connection of its own, with the number of bytes before it.
 */
export class GuestStream implements ByteStream {
  readonly #conn: Deno.Conn;
  #first: Uint8Array;
  #count = 0;
  #endsAt = Infinity;
  readonly #tell?: (line: string) => Promise<void>;
  /** ends the pending read */
  #endRead?: () => void;

  /**
   * @param first bytes that came with the frame that opened it
   * @param tell sends the guest the reason for a refusal; it closes the connection then
   */
  constructor(conn: Deno.Conn, first: Uint8Array, tell?: (line: string) => Promise<void>) {
    this.#conn = conn;
    this.#first = first;
    this.#tell = tell;
  }

  /** @returns after the guest has closed the connection, or did not in time */
  async refuse(line: string): Promise<void> {
    if (!this.#tell) return;
    await this.#tell(line).catch(() => {});
    const into = new Uint8Array(4096);
    const gone = (async () => {
      while (await this.#conn.read(into) !== null);
    })().catch(() => backgroundDelay(REFUSE_MS));
    await Promise.race([gone, backgroundDelay(REFUSE_MS)]);
  }

  /** Ends the program's side after this many bytes. */
  end(bytes: number): void {
    this.#endsAt = bytes;
    if (this.#count >= bytes) this.#endRead?.();
  }

  /** @throws {Deno.errors.ConnectionReset} when the connection ends before the program's side did */
  read(into: Uint8Array): Promise<number | null> {
    if (this.#first.length > 0) {
      const chunk = this.#first.subarray(0, into.length);
      into.set(chunk);
      this.#first = this.#first.subarray(chunk.length);
      this.#count += chunk.length;
      return Promise.resolve(chunk.length);
    }
    if (this.#count >= this.#endsAt) return Promise.resolve(null);
    return new Promise((resolve, reject) => {
      this.#endRead = () => resolve(null);
      this.#conn.read(into).then((read) => {
        this.#endRead = undefined;
        if (read === null) {
          return reject(new Deno.errors.ConnectionReset("the guest reset the connection"));
        }
        this.#count += read;
        resolve(read);
      }, reject);
    });
  }

  write(bytes: Uint8Array): Promise<number> {
    return this.#conn.write(bytes);
  }

  closeWrite(): Promise<void> {
    return this.#conn.closeWrite();
  }

  close(): void {
    this.#conn.close();
  }
}
