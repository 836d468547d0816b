import type { BodySource } from "../message/body.ts";
import type { Header } from "../message/header.ts";
import type { Destination } from "../interface/mod.ts";
import type { EventProcess } from "../../event/mod.ts";

/** Origin of a request, and of the events that follow from it. */
export interface Requester {
  actor: "vm" | "host";
  process?: EventProcess;
  /** trace that the request claims, once its head was read */
  trace_id?: string;
}

/** A parsed request whose destination has been checked. */
export interface IncomingRequest extends Destination {
  by: Requester;
  method: string;
  /** path in its canonical spelling, and query */
  target: string;
  /** path as the client wrote it, where that differs */
  rawPath?: string;
  /** end-to-end fields, without `host` */
  headers: Header[];
  /** names of fields that dropped fields of the client imitate */
  imitated?: readonly string[];
  body: BodySource;
  /** length of the head in `bytes` */
  headBytes: number;
  /** where the guest connected to; absent for requests of the host, whose names are looked up */
  address?: string;
  /** requested protocol of an upgrade */
  upgrade?: string;
  /** the client announced its body and waits for `100 Continue` before it sends it */
  expects?: boolean;
  /** the client reads trailers */
  trailers: boolean;
}

/** Head of a request, with refs in place of secrets. */
export interface CapturedHead {
  method: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: Header[];
}
