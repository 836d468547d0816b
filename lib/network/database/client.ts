/** A guest's connection to a database, before it is read. */
import type { BufferedConnection } from "../connection.ts";
import type { Flow, Requester } from "../exchange/request.ts";
import type { DatabaseAccount } from "../interface/mod.ts";

/**
 * Begins TLS with a client that asks for it.
 * @returns the decrypted connection; `undefined` when the handshake fails
 */
export type AcceptTls = (client: BufferedConnection) => Promise<BufferedConnection | undefined>;

/** A guest's connection to a database. */
export interface DatabaseClient {
  connection: BufferedConnection;
  flow: Flow;
  by: Requester;
  host: string;
  accounts: readonly DatabaseAccount[];
  acceptTls: AcceptTls;
}

/** Sends a CancelRequest to the server of a connection. */
export type Cancel = (packet: Uint8Array) => Promise<void>;
