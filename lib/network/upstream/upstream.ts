/** Interface between an exchange and its upstream, for HTTP/1.1 and HTTP/2. */
import type { BufferedConnection, DeadlineWatch } from "../connection.ts";
import type { BodySource } from "../message/body.ts";
import type { Header } from "../message/header.ts";
import type { Deflate } from "../websocket/mod.ts";
import type { Destination } from "../interface/mod.ts";

/** Address that a connection is made to; TLS and HTTP keep the host's name. */
export interface DialAddress {
  /** an IP address */
  hostname: string;
  port: number;
  /** of `network.upstream_overrides`: reached without a proxy */
  isOverride?: boolean;
}

/**
 * Opens a TCP connection to the address that policy decided on.
 * @param target.name the guest's name for the address
 */
export type TcpConnector = (
  target: { hostname: string; port: number; name?: string },
  signal: AbortSignal,
) => Promise<Deno.TcpConn>;

/** A destination, pinned to the address that policy decided on. */
export interface PinnedDestination extends Destination {
  dial: DialAddress;
}

/** A request to send. */
export interface OutgoingRequest {
  method: string;
  /** `host`, or `:authority` */
  authority: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: readonly Header[];
  body: BodySource;
  /** requested protocol of an upgrade */
  upgrade?: string;
  /** offers compression of the WebSocket */
  offersDeflate?: boolean;
  /** the client reads trailers */
  trailers: boolean;
  /** either side may be silent for long */
  isStream?: boolean;
  /** for HTTP/2 without TLS, which the upstream is known to speak */
  h2c?: boolean;
}

/** Announcement of a body, whose bytes wait until the upstream asks for them. */
export const EXPECT_CONTINUE: Header = ["expect", "100-continue"];

/** The wait of a request for `100 Continue`. */
export class Continuation {
  readonly #settled = Promise.withResolvers<boolean>();

  /** @param isAsked the body may go out; false when the response, or an error, came first */
  settle(isAsked: boolean): void {
    this.#settled.resolve(isAsked);
  }

  /**
   * Waits, at most `ms`: many servers never answer an announcement.
   * @returns true when the body may go out
   */
  async wait(watch: DeadlineWatch, ms: number): Promise<boolean> {
    const deadline = watch.add(() => this.settle(true));
    deadline.set(ms);
    try {
      return await this.#settled.promise;
    } finally {
      watch.remove(deadline);
    }
  }
}

/** A response whose body is still to be read. */
export interface UpstreamResponse {
  status: number;
  /** end-to-end fields */
  headers: Header[];
  body: BodySource;
  /** its `content-length`; in a response to HEAD, that of the missing body */
  declared?: string;
  /** digest of the copy in the shared cache that the body is; absent: the upstream sent it */
  cacheDigest?: string;
  /** the connection after an accepted upgrade (101); its unread bytes belong to the new protocol */
  upgraded?: BufferedConnection;
  /** compression of the WebSocket that the upstream agreed to */
  deflate?: Deflate;
}

/** One request on a connection to an upstream, and its response. */
export interface UpstreamExchange {
  /**
   * Settles with the final response; the request's body may still be going out then.
   *
   * @throws {ConnectionLost | MessageFault}, and errors of reading the request's body
   */
  response: Promise<UpstreamResponse>;
  /** a byte of a response was received; until then the upstream may not have seen the request */
  readonly hasResponded: boolean;
  /** the upstream reported that it has not processed the request */
  readonly refused: boolean;
  /** Ends an exchange whose response was read to its end: the connection may be reused. */
  done(): void;
  abort(): void;
}
