/** Accepting connections, even after errors. */
import { log } from "../log/mod.ts";

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
    if ("setNoDelay" in conn) sendSmallAtOnce(conn as unknown as Deno.TcpConn);
    yield conn;
  }
}

/**
 * Sends small pieces of a connection at once: a second one would wait for the acknowledgement of the first,
 * which its peer delays by 40 ms. macOS refuses it for a connection that its peer has broken off, which its
 * reader sees.
 */
export function sendSmallAtOnce(conn: Pick<Deno.TcpConn, "setNoDelay">): void {
  try {
    conn.setNoDelay(true);
  } catch (error) {
    log.debug("a connection waits with small pieces:", error);
  }
}

/** Errors of accept for a connection that its peer has already broken off. */
const BROKEN_OFF = [Deno.errors.NotConnected, Deno.errors.ConnectionReset, Deno.errors.ConnectionAborted];
