import { SbxError } from "../../base/error/mod.ts";
import { isLoopbackHost, shownAddress } from "../../base/url/mod.ts";

/** Ports of the HTTP interface: with TLS, and on loopback without. */
const PORT_TLS = 8443;
const PORT_PLAIN = 8123;

/** A database of a ClickHouse server, by its HTTP interface. */
export interface ClickHouseAddress {
  /** http only on loopback */
  url: URL;
  database: string;
  user?: string;
  /** the address, for messages */
  name: string;
}

/** Parses `clickhouse://[USER@]HOST[:PORT][/DATABASE]`. @throws {SbxError} `fleet.url.invalid` */
export function parseClickHouse(text: string): ClickHouseAddress {
  const rest = /^clickhouse:\/\/(.+)$/.exec(text)?.[1];
  const parsed = rest === undefined ? null : URL.parse(`https://${rest}`);
  const database = parsed?.pathname.slice(1) || "default";
  if (!parsed || parsed.password || parsed.search || parsed.hash || !/^[A-Za-z_]\w{0,63}$/.test(database)) {
    throw new SbxError(
      "fleet.url.invalid",
      `"${shownAddress(text)}" is not the address of a ClickHouse server`,
      {
        hint: "use clickhouse://HOST, with a port and /DATABASE if you like; --credential names a password",
      },
    );
  }
  const { hostname, username } = parsed;
  const isHere = isLoopbackHost(hostname);
  const port = Number(parsed.port || (isHere ? PORT_PLAIN : PORT_TLS));
  return {
    url: new URL(`${isHere ? "http" : "https"}://${hostname}:${port}/`),
    database,
    ...(username && { user: decodeURIComponent(username) }),
    name: `clickhouse://${hostname}:${port}/${database}`,
  };
}
