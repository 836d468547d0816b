/** First messages of a PostgreSQL client: its requests for encryption, and the one behind them. */
import type { BufferedConnection } from "../connection.ts";
import { MessageFault } from "../fault.ts";
import type { AcceptTls } from "./client.ts";
import { GSS_REQUEST, SSL_REQUEST, type StartupPacket, takeStartup } from "./postgres_message.ts";

/** First byte of TLS. */
const TLS_HANDSHAKE = 0x16;

/** A client after its first message. */
export interface First {
  /** with TLS, where it asked for that */
  connection: BufferedConnection;
  /** absent: it has left */
  packet?: StartupPacket;
}

/**
 * Answers the requests for encryption, and reads the message behind them.
 *
 * @returns undefined: it has left before, or its handshake failed
 * @throws {MessageFault}
 */
export async function takeFirst(
  client: BufferedConnection,
  acceptTls: AcceptTls,
): Promise<First | undefined> {
  let connection = client;
  let hasAsked = false;
  while (true) {
    if (connection.count === 0 && !await connection.fill().catch(() => false)) return undefined;
    if (connection === client && connection.unread[0] === TLS_HANDSHAKE) {
      const inside = await acceptTls(connection);
      if (!inside) return undefined;
      connection = inside;
      continue;
    }
    const packet = await takeStartup(connection);
    if (packet?.code !== SSL_REQUEST && packet?.code !== GSS_REQUEST) {
      return { connection, ...packet && { packet } };
    }
    const isTls = packet.code === SSL_REQUEST;
    if (packet.bytes.length !== 8 || isTls && (connection !== client || hasAsked)) {
      throw new MessageFault("a false request for encryption");
    }
    hasAsked ||= isTls;
    // Bytes before the answer were never encrypted.
    if (connection.count > 0) throw new MessageFault("bytes behind a request for encryption");
    await connection.write(new Uint8Array([isTls ? 0x53 : 0x4e]));
  }
}
