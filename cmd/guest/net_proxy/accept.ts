/** Errors of accept for a connection its program has already broken off. */
const BROKEN_OFF = [Deno.errors.NotConnected, Deno.errors.ConnectionReset, Deno.errors.ConnectionAborted];

/** Accepts connections of programs; skips connections broken off before. */
export async function* acceptAll(listener: Deno.TcpListener): AsyncGenerator<Deno.TcpConn> {
  while (true) {
    let conn: Deno.TcpConn;
    try {
      conn = await listener.accept();
    } catch (error) {
      if (BROKEN_OFF.some((kind) => error instanceof kind)) continue;
      throw error;
    }
    yield conn;
  }
}
