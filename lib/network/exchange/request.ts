/**
 * A request of a guest between its parser and its event: origin, authority, and the check that it goes where
 * it claims.
 */
import type { BodySource } from "../message/body.ts";
import type { Header } from "../message/header.ts";
import type { Deflate } from "../websocket/mod.ts";
import type { Destination, NamePort } from "../interface/mod.ts";
import type { EventProcess } from "../../event/mod.ts";
import { canonicalHost, formatAuthority, isAddress } from "../../base/address/mod.ts";

export { formatAuthority };

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
  /** compression of the WebSocket that the client offered, as sbx accepts it */
  deflate?: Deflate;
  /** the client announced its body and waits for `100 Continue` before it sends it */
  expects?: boolean;
  /** the client reads trailers */
  trailers: boolean;
  /** the client speaks HTTP/2 */
  http2?: boolean;
}

/** Head of a request, with refs in place of secrets. */
export interface CapturedHead {
  method: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: Header[];
}

// Hosts that requests name, and the check that a request goes to the host it names.

/** A host and its port, as in `host` and in URLs. */
export interface Authority {
  /** canonical (docs/design/contracts/05-policy.md §5, "Hosts") */
  host: string;
  /** absent for the default port of the scheme */
  port?: number;
}

/** Parses an authority; `undefined` for an impossible host or port. */
export function parseAuthority(text: string): Authority | undefined {
  const [, bracketed, name, port] =
    /^(?:\[([0-9a-fA-F:.]{2,45})\]|([^:@/\[\]]+))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const host = canonicalHost(bracketed ?? name ?? "");
  if (host === undefined || bracketed?.includes(":") === false) return undefined;
  if (port === undefined) return { host };
  return Number(port) <= 65535 ? { host, port: Number(port) } : undefined;
}

/** One TCP connection of the guest: its destination, and the server name of its TLS. */
export interface Flow {
  scheme: "http" | "https";
  /** destination address of the guest's connection, canonical */
  address: string;
  port: number;
  /** server name of its ClientHello, canonical */
  name?: string;
}

/**
 * Finds a contradiction between a request's authority, the TLS server name, the port, and the DNS answers of
 * the guest. Without this check, rules on hosts would not apply to the real destination.
 *
 * @returns the contradiction as a sentence; `undefined` when all agree
 */
export function findMismatch(flow: Flow, { host, port }: Authority, names: NamePort): string | undefined {
  const { scheme, address, name } = flow;
  const namedPort = port ?? (scheme === "https" ? 443 : 80);
  if (namedPort !== flow.port) {
    return `the request names port ${namedPort}, but its connection goes to port ${flow.port}`;
  }
  if (name !== undefined && name !== host) {
    return `the TLS handshake names ${name}, but the request names ${host}`;
  }
  if (agrees(host, address, names)) return undefined;
  return `the connection goes to ${address}, which no DNS answer of this VM gives for ${host}`;
}

/** True when a host is at an address: a name by the guest's DNS answers, an address if equal. */
export function agrees(host: string, address: string, names: NamePort): boolean {
  return isAddress(host) ? canonicalHost(address) === host : names.agrees(host, address);
}
