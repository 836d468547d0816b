/** A refusal in the words of a database's protocol, for a client that would see a reset alone. */
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { BufferedConnection } from "../connection.ts";
import type { DatabaseSystem } from "../interface/mod.ts";
import type { AcceptTls } from "./client.ts";
import { errorPacket } from "./mysql_packet.ts";
import { takeFirst } from "./postgres_first.ts";
import { errorMessage } from "./postgres_message.ts";

/** ER_SPECIFIC_ACCESS_DENIED_ERROR, and its SQLSTATE. */
const DENIED = [1227, "42000"] as const;

/**
 * Ends the connection of a client that no database has answered yet.
 *
 * @param client its first bytes are unread
 * @returns false: it does not speak the protocol, and has got nothing
 */
export async function refuseDatabase(
  system: DatabaseSystem,
  client: BufferedConnection,
  line: string,
  acceptTls: AcceptTls,
): Promise<boolean> {
  if (system === "mysql") await client.write(errorPacket(0, ...DENIED, line));
  else if (system === "redis") await client.write(new TextEncoder().encode(`-NOPERM ${line}\r\n`));
  else {
    try {
      const first = await takeFirst(client, acceptTls);
      if (!first?.packet) return first !== undefined;
      await first.connection.write(errorMessage("FATAL", "42501", line));
    } catch (error) {
      if (error instanceof MessageFault || error instanceof ConnectionLost) return false;
      throw error;
    }
  }
  return true;
}
