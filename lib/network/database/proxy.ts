/**
 * Databases of a guest to which the host logs in (docs/design/contracts/05-policy.md §5, "Databases"): a
 * connection to the host and port of a credential that the VM may use.
 */
import type { Decision } from "../../policy/mod.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { watchForDecoys } from "../exchange/decoy.ts";
import type { BufferedConnection } from "../connection.ts";
import type { DatabaseSystem } from "../interface/mod.ts";
import type { AcceptTls, Cancel, DatabaseClient } from "./client.ts";

/** The databases of one VM. */
export class DatabaseProxy {
  readonly #context: ExchangeContext;
  /** open connections by the key that cancels their statements, of this VM alone */
  readonly #cancels = new Map<string, Cancel>();

  constructor(context: ExchangeContext) {
    this.#context = context;
  }

  /** Serves a connection until it ends. @returns the decision that refused it */
  async serve(guest: DatabaseClient): Promise<Decision | undefined> {
    const client = this.#watched(guest);
    const { system } = client.accounts[0];
    // Loaded with the first connection to a database, which most VMs never make.
    if (system === "redis") {
      const { RedisConnection } = await import("./redis.ts");
      return await new RedisConnection(this.#context, client).serve();
    }
    if (system === "mysql") {
      const { MysqlConnection } = await import("./mysql_connection.ts");
      return await new MysqlConnection(this.#context, client).serve();
    }
    const { PostgresConnection } = await import("./postgres_connection.ts");
    return await new PostgresConnection(this.#context, client, this.#cancels).serve();
  }

  /** The client, whose statements and parameters are searched for decoys as they arrive. */
  #watched(client: DatabaseClient): DatabaseClient {
    const { gate, broker } = this.#context;
    const { by, host } = client;
    const watch = (connection: BufferedConnection) =>
      watchForDecoys(connection, { gate, broker, by, host, location: "statement" });
    watch(client.connection);
    return {
      ...client,
      acceptTls: async (connection) => {
        const inside = await client.acceptTls(connection);
        if (inside) watch(inside);
        return inside;
      },
    };
  }

  /** Ends a connection that goes to no database of the host. @returns false: its client got nothing */
  async refuse(
    system: DatabaseSystem,
    client: BufferedConnection,
    line: string,
    acceptTls: AcceptTls,
  ): Promise<boolean> {
    const { refuseDatabase } = await import("./refusal.ts");
    return await refuseDatabase(system, client, line, acceptTls);
  }
}
