/** libSQL servers as the way between machines and a receiver (docs/guides/fleet.md). */
import { SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { isLoopbackHost, shownAddress } from "../base/url/mod.ts";
import { RemoteDatabase } from "../ledger/remote/mod.ts";

/** Makes the `authorization` header for an address. */
type Authorize = (url: URL) => Promise<string>;
type Answer = Awaited<ReturnType<RemoteDatabase["run"]>>;

/** Parses `libsql://HOST[:PORT]`; HTTPS but on loopback. @throws {SbxError} `fleet.url.invalid` */
export function parseLibsql(text: string): URL {
  const rest = /^libsql:\/\/(.+)$/.exec(text)?.[1];
  const url = rest === undefined ? null : URL.parse(`https://${rest}`);
  if (!url || url.username || url.password || url.search || url.hash || url.pathname !== "/") {
    throw new SbxError("fleet.url.invalid", `"${shownAddress(text)}" is not the address of a libSQL server`, {
      hint: "use libsql://HOST; a stored credential is its token",
    });
  }
  return isLoopbackHost(url.hostname) ? new URL(`http://${rest}`) : url;
}

/** A libSQL server with the tables of a fleet. */
export class FleetDatabase {
  readonly name: string;
  readonly #url: URL;
  readonly #authorize?: Authorize;

  constructor(url: string, authorize?: Authorize) {
    this.#url = parseLibsql(url);
    this.name = `libsql://${this.#url.host}`;
    this.#authorize = authorize;
  }

  /** Runs a statement. @throws {SbxError} `fleet.unavailable` */
  async run(sql: string, args: (string | number)[] = []): Promise<Answer> {
    const authorization = await this.#authorize?.(this.#url);
    let database: RemoteDatabase | undefined;
    try {
      // A token may be revoked at any time: each statement asks for it.
      database = await RemoteDatabase.open(this.#url.href, authorization?.replace(/^Bearer /, ""));
      return await database.run(sql, args);
    } catch (cause) {
      const said = plain(String((cause as Error).message ?? cause).split("\n")[0]).slice(0, 300);
      throw new SbxError("fleet.unavailable", `the collector ${this.name} refuses it: ${said}`, {
        cause,
        hint: "the rows are kept in the ledgers of this machine, and sent later",
      });
    } finally {
      database?.close();
    }
  }
}
