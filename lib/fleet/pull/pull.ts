import { SbxError } from "../../base/error/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import { ClickHouseClient, parseClickHouse } from "../clickhouse/mod.ts";
import { FleetDatabase } from "../libsql.ts";
import { parseNats, refuseClear } from "../nats.ts";
import { pullNats } from "./nats.ts";
import { ClickHouseTables, LibsqlTables, pullTables } from "./table.ts";
import type { Pulled } from "./take.ts";

/** How a receiver reads from where machines put their segments. */
export interface PullOptions extends Pulled {
  signal: AbortSignal;
  onKept?(messages: number): void;
}

/** Reads until aborted. @throws {SbxError} `fleet.unavailable` and others that no retry fixes */
export type Pull = (options: PullOptions) => Promise<void>;

/** Prepares to read the source a URL names, without connecting yet. @throws {SbxError} `fleet.url.invalid` */
export function openSource(url: string, authorize?: (url: URL) => Promise<string>): Pull {
  if (/^(nats|tls):/.test(url)) {
    const address = parseNats(url);
    if (authorize) refuseClear(address);
    return (options) => pullNats({ ...options, address, authorize });
  }
  if (url.startsWith("clickhouse:")) {
    const tables = new ClickHouseTables(new ClickHouseClient(parseClickHouse(url), authorize));
    return (options) => pullTables({ ...options, tables });
  }
  if (url.startsWith("libsql:")) {
    const tables = new LibsqlTables(new FleetDatabase(url, authorize));
    return (options) => pullTables({ ...options, tables });
  }
  throw new SbxError("fleet.url.invalid", `a receiver cannot read from "${shownAddress(url)}"`, {
    hint: "use tls://HOST of a NATS server, clickhouse://HOST or libsql://HOST",
  });
}
