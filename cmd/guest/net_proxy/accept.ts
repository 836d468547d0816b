/** What accept says of a connection that its program has broken off before. */
const GONE = [Deno.errors.NotConnected, Deno.errors.ConnectionReset, Deno.errors.ConnectionAborted];

/** Connections as programs make them; those that are broken off before they are taken are passed over. */
export async function* connectionsOf(listener: Deno.TcpListener): AsyncGenerator<Deno.TcpConn> {
  while (true) {
    let conn: Deno.TcpConn;
    try {
      conn = await listener.accept();
    } catch (error) {
      if (GONE.some((kind) => error instanceof kind)) continue;
      throw error;
    }
    yield conn;
  }
}
