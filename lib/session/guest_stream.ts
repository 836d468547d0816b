import type { ByteStream } from "../net/mod.ts";

/**
 * One TCP connection of a guest's program, as sbx-net-proxy carries it. The end of the program's side is told on a
 * connection of its own, with the number of bytes before it: a vhost-user vsock tells no half-close.
 */
export class GuestStream implements ByteStream {
  readonly #conn: Deno.Conn;
  #first: Uint8Array;
  #count = 0;
  #endsAt = Infinity;
  /** ends the read that waits */
  #endRead?: () => void;

  /** @param first bytes that came right behind the frame that opened it */
  constructor(conn: Deno.Conn, first: Uint8Array) {
    this.#conn = conn;
    this.#first = first;
  }

  /** The program has ended its side after this many bytes. */
  end(bytes: number): void {
    this.#endsAt = bytes;
    if (this.#count >= bytes) this.#endRead?.();
  }

  /** @throws {Deno.errors.ConnectionReset} when the connection ends before the program has ended its side of it */
  read(into: Uint8Array): Promise<number | null> {
    if (this.#first.length > 0) {
      const taken = this.#first.subarray(0, into.length);
      into.set(taken);
      this.#first = this.#first.subarray(taken.length);
      this.#count += taken.length;
      return Promise.resolve(taken.length);
    }
    if (this.#count >= this.#endsAt) return Promise.resolve(null);
    return new Promise((resolve, reject) => {
      this.#endRead = () => resolve(null);
      this.#conn.read(into).then((read) => {
        this.#endRead = undefined;
        if (read === null) {
          return reject(new Deno.errors.ConnectionReset("the guest broke the connection off"));
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
