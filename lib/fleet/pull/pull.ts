import { SbxError } from "../../base/error/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../clickhouse/mod.ts";
import { FleetDatabase } from "../libsql/mod.ts";
import { parseNats } from "../nats/mod.ts";
import { ClickHouseTables } from "./clickhouse.ts";
import { LibsqlTables } from "./libsql.ts";
import { pullNats } from "./nats.ts";
import { pullTables } from "./table.ts";
import type { Pulled } from "./take.ts";

/** How a receiver reads from where machines put their segments. */
export interface PullOptions extends Pulled {
  authorize?: ((url: URL) => Promise<string>) | undefined;
  signal: AbortSignal;
  onKept?(messages: number): void;
}

/** Reads what a URL names until it is aborted. @throws {SbxError} `fleet.url.invalid`, `fleet.unavailable` */
export async function pullFrom(url: string, options: PullOptions): Promise<void> {
  if (/^(nats|tls):/.test(url)) return await pullNats({ ...options, address: parseNats(url) });
  if (url.startsWith("clickhouse:")) {
    const client = new ClickHouseClient(parseClickHouse(url), options.authorize);
    return await pullTables({ ...options, tables: new ClickHouseTables(client) });
  }
  if (url.startsWith("libsql:")) {
    const tables = new LibsqlTables(new FleetDatabase(url, options.authorize));
    return await pullTables({ ...options, tables });
  }
  throw new SbxError("fleet.url.invalid", `a receiver cannot read from "${shownAddress(url)}"`, {
    hint: "use tls://HOST of a NATS server, clickhouse://HOST or libsql://HOST",
  });
}
