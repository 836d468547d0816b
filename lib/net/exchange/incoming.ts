import type { BodySource } from "../message/body.ts";
import type { Destination } from "../port/broker.ts";
import type { Requester } from "./draft.ts";
import type { Header } from "../message/header.ts";

/** A request as it was read, its names checked. */
export interface Incoming extends Destination {
  by: Requester;
  method: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: Header[];
  body: BodySource;
  /** bytes of the head */
  headBytes: number;
  /** where the guest connected to; the host's own requests have none until a name is looked up */
  address?: string;
  /** the protocol that the connection is to change to */
  upgrade?: string;
  /** the client reads trailers */
  trailers: boolean;
}
