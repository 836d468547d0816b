import { ignore } from "../../../lib/base/error/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import type { RunningProgram, Sink, Source } from "./program.ts";

/** Addresses of programs that listen on this machine. */
const LOOPBACKS = ["127.0.0.1", "::1"];

/** A connection to a port of the guest, with the streams of a program. */
export class PortConnection implements RunningProgram {
  /** code 0 when the port's side has ended, 1 when the connection was reset */
  readonly status: Promise<{ code: number }>;
  readonly stdin: Sink;
  readonly stdout: Source;
  readonly stderr: Source = { read: () => Promise.resolve(null), close: () => {} };
  readonly #conn: Deno.TcpConn;
  readonly #ended = Promise.withResolvers<{ code: number }>();
  /** settles when the host has sent all */
  readonly #written = Promise.withResolvers<void>();

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
    this.status = this.#ended.promise;
    this.stdout = { read: (into) => this.#read(into), close: () => this.#close() };
    this.stdin = {
      write: (from) => writeAll(conn, from),
      close: () => {
        this.#written.resolve();
        conn.closeWrite().catch(ignore("the connection is closed"));
      },
    };
  }

  /** @throws {Deno.errors.ConnectionRefused} nothing listens there */
  static async open(port: string): Promise<PortConnection> {
    let refused: unknown;
    for (const hostname of LOOPBACKS) {
      try {
        return new PortConnection(await Deno.connect({ hostname, port: Number(port) }));
      } catch (error) {
        refused = error;
      }
    }
    throw refused;
  }

  async #read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    const read = await this.#conn.read(into).catch(() => undefined);
    if (read) return read;
    this.#ended.resolve({ code: read === null ? 0 : 1 });
    this.#written.promise.then(() => this.#close());
    return null;
  }

  #close(): void {
    try {
      this.#conn.close();
    } catch {
      // closed already
    }
  }
}
