/** What an exchange asks of the way to an upstream, whichever HTTP that speaks. */
import type { BodySource } from "../message/body.ts";
import type { Connection } from "../connection.ts";
import type { Destination } from "../port/broker.ts";
import type { Header } from "../message/header.ts";

/** Where a connection is really made to; the name stays what is asked of it, in TLS and in HTTP. */
export interface Target {
  /** an address */
  hostname: string;
  port: number;
}

/** One upstream: a name, pinned to the address that policy looked at. */
export interface Place extends Destination {
  target: Target;
}

/** A request as it goes out. */
export interface OutgoingRequest {
  method: string;
  /** host and port as `host` says them, or `:authority` */
  authority: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: readonly Header[];
  body: BodySource;
  /** asks for another protocol on the connection */
  upgrade?: string;
  /** the client reads trailers */
  trailers: boolean;
}

/** An answer whose body is yet to come. */
export interface UpstreamAnswer {
  status: number;
  /** end-to-end fields */
  headers: Header[];
  body: BodySource;
  /** its `content-length`; in an answer to HEAD it is of a body that does not come */
  declared?: string;
  /** the connection, when the upstream took an upgrade (101); its waiting bytes are of the new protocol */
  upgraded?: Connection;
}

/** One exchange with an upstream. */
export interface UpstreamExchange {
  /**
   * Settles with the final answer; a body that is still going out then goes on.
   *
   * @throws {ConnectionLost | MessageFault}, or what reading the request's body throws
   */
  answer: Promise<UpstreamAnswer>;
  /** any byte of an answer has come; until then the upstream may not have seen the request */
  readonly answered: boolean;
  /** the upstream said that it has not acted on the request */
  readonly refused: boolean;
  /** Says that the answer's body was read to its end: the connection may serve others. */
  done(): void;
  /** Breaks it off. */
  abort(): void;
}
