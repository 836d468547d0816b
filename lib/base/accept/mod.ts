/** Accepting connections, even after errors. */

/** Time before the next attempt after an error, in `ms`. */
const RETRY_MS = 100;

/**
 * Yields the connections of a listener until that is closed; TCP's send at once. No other error ends it: a
 * process without free descriptors accepts again once it has some, and a connection that its peer broke off
 * is skipped.
 */
export async function* acceptAll<Conn extends Deno.Conn>(
  listener: { accept(): Promise<Conn> },
): AsyncGenerator<Conn> {
  while (true) {
    let conn: Conn;
    try {
      conn = await listener.accept();
    } catch (error) {
      if (error instanceof Deno.errors.BadResource) return;
      if (!BROKEN_OFF.some((kind) => error instanceof kind)) {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
      continue;
    }
    // A second small piece would wait for the acknowledgement of the first, which its peer delays by 40 ms.
    if ("setNoDelay" in conn) (conn as unknown as Deno.TcpConn).setNoDelay(true);
    yield conn;
  }
}

/** Errors of accept for a connection that its peer has already broken off. */
const BROKEN_OFF = [Deno.errors.NotConnected, Deno.errors.ConnectionReset, Deno.errors.ConnectionAborted];
