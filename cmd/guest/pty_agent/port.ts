/** Addresses of programs that listen on this machine. */
const LOOPBACKS = ["127.0.0.1", "::1"];

/** A connection to a port of the guest, with the streams of a program. */
export class PortConnection {
  readonly pid = undefined;
  readonly stdin: WritableStream<Uint8Array<ArrayBufferLike>>;
  readonly stdout: Deno.ChildProcess["stdout"];
  readonly stderr: Deno.ChildProcess["stderr"];
  /** code 0 when the port's side has ended, 1 when the connection was reset */
  readonly status: Promise<{ code: number }>;
  readonly #conn: Deno.TcpConn;

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
    const ended = Promise.withResolvers<{ code: number }>();
    this.status = ended.promise;
    const chunk = new Uint8Array(16 * 1024);
    this.stdout = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (controller) => {
        const read = await conn.read(chunk).catch(() => undefined);
        if (read) return controller.enqueue(chunk.slice(0, read));
        controller.close();
        ended.resolve({ code: read === null ? 0 : 1 });
        await this.#written.promise;
        this.close();
      },
    }) as Deno.ChildProcess["stdout"];
    this.stderr = new ReadableStream({ start: (controller) => controller.close() }) as typeof this.stderr;
    this.stdin = new WritableStream({
      write: async (bytes) => {
        for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
      },
      close: async () => {
        this.#written.resolve();
        await conn.closeWrite();
      },
    });
  }

  #written = Promise.withResolvers<void>();

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

  close(): void {
    try {
      this.#conn.close();
    } catch {
      // closed already
    }
  }
}
