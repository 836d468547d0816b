import { fileURLToPath } from "node:url";
import { SbxError } from "../../base/error/mod.ts";
import { shownAddress } from "../../base/url/mod.ts";
import type { SigningKey } from "../../release/mod.ts";
import {
  type Authorize,
  ClickHouseTarget,
  FolderTarget,
  HttpTarget,
  LibsqlTarget,
  NatsTarget,
  type SegmentTarget,
} from "../ship/mod.ts";

/** Opens the collector that a URL names, for a machine with that key. @throws {SbxError} `fleet.url.invalid` */
export function openTarget(url: string, key: SigningKey, authorize?: Authorize): SegmentTarget {
  const parsed = URL.parse(url);
  switch (parsed?.protocol) {
    case "file:":
      return new FolderTarget(fileURLToPath(parsed));
    case "http:":
    case "https:":
      return new HttpTarget(url, key, authorize);
    case "nats:":
    case "tls:":
      return new NatsTarget(url, authorize);
    case "clickhouse:":
      return new ClickHouseTarget(url, authorize);
    case "libsql:":
      return new LibsqlTarget(url, authorize);
    default:
      throw new SbxError("fleet.url.invalid", `"${shownAddress(url)}" is not the address of a collector`, {
        hint:
          "use https://HOST, http://127.0.0.1:PORT, tls://HOST of a NATS server, clickhouse://HOST, libsql://HOST or file:///DIR",
      });
  }
}
