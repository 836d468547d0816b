/**
 * Requests of a guest, in any HTTP version: the host that each names, and the
 * guards that refuse some of them.
 */
import {
  METADATA_ADDRESS,
  METADATA_ALIAS,
  METADATA_HOST,
  METADATA_NAME,
  plainHost,
} from "../../base/address/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import type { Decision, Refusal } from "../../policy/mod.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { connectDraft, httpDraft, NO_HTTP_BODY, rawPathOf } from "../exchange/draft.ts";
import {
  type Authority,
  findMismatch,
  type Flow,
  formatAuthority,
  type IncomingRequest,
  parseAuthority,
  type Requester,
} from "../exchange/request.ts";
import { MessageFault } from "../fault.ts";
import type { NamePort } from "../interface/mod.ts";
import type { NetTimeouts } from "../limit.ts";
import type { BodySource } from "../message/body.ts";
import { type RequestHead, splitTarget } from "../message/head.ts";
import { dropHopByHop, dropImitations } from "../message/header.ts";
import { agreeWithGuest, EXTENSIONS, upgradeOf } from "../websocket/mod.ts";

/** One connection of a guest that speaks HTTP. */
export interface GuestHttpOptions {
  context: ExchangeContext;
  names: NamePort;
  timeouts: NetTimeouts;
  flow: Flow;
  by: Requester;
}

/** A parsed request with the host that it names. */
export interface NamedRequest {
  request: IncomingRequest;
  /** the guard that refuses it */
  refusal?: Refusal;
}

/**
 * Reads the host and the target of a request.
 *
 * @param headBytes length of its head
 * @throws {MessageFault} for an invalid host or target
 */
export function nameRequest(
  options: GuestHttpOptions,
  head: RequestHead,
  body: BodySource,
  headBytes: number,
): NamedRequest {
  const { flow, by, names, context } = options;
  const authority = authorityOf(options, head);
  const upgrade = upgradeOf(head, !body.done);
  const deflate = upgrade === undefined ? undefined : agreeWithGuest(head.headers);
  const { kept, imitated } = dropImitations(head.headers);
  const target = originForm(head, authority, flow);
  const { path } = splitTarget(target);
  const canonical = path === "*" ? { path } : canonicalPath(path);
  const isChanged = canonical.path !== undefined && canonical.path !== path;
  const isMetadata = namesMetadata(flow, authority) && context.broker.servesMetadata?.() === true;
  const request: IncomingRequest = {
    by,
    scheme: flow.scheme,
    // The record names who answers, and no address is left to connect to.
    host: isMetadata ? METADATA_HOST : authority.host,
    port: flow.port,
    ...(!isMetadata && { address: flow.address }),
    method: head.method,
    target: isChanged ? canonical.path + target.slice(path.length) : target,
    ...(isChanged && { rawPath: path }),
    headers: dropHopByHop(kept).filter(([name]) => name !== "host" && name !== EXTENSIONS),
    ...(imitated.length > 0 && { imitated }),
    body,
    headBytes,
    trailers: head.headers.some(([name, value]) => name === "te" && /(^|[ ,])trailers/i.test(value)),
    ...(upgrade !== undefined && { upgrade }),
    ...(deflate && { deflate }),
    // Bytes that are here already need no `100 Continue` (RFC 9110 §10.1.1).
    ...(expectsContinue(head) && !body.done && !body.ready && { expects: true }),
  };
  const mismatch = isMetadata ? undefined : findMismatch(flow, authority, names);
  if (mismatch !== undefined) return { request, refusal: frontingRefusal(mismatch) };
  return { request, ...(canonical.fault !== undefined && { refusal: pathRefusal(canonical.fault) }) };
}

/** Records a request that a guard refuses. */
export function refuseNamed(
  { context: { gate, broker }, flow, by }: GuestHttpOptions,
  request: IncomingRequest,
  refusal: Refusal,
): Decision {
  const { host, target, headBytes } = request;
  const captured = broker.capture(host, [[":path", target], ...request.headers]).headers;
  const { rawPath: _, ...rest } = request;
  const rawPath = rawPathOf(request, { target: captured[0][1] }, (text) => broker.scrub(text));
  const draft = httpDraft(by, {
    ...rest,
    ...(rawPath !== undefined && { rawPath }),
    target: captured[0][1],
    headers: [["host", formatAuthority(flow.scheme, host, flow.port)], ...captured.slice(1)],
    bytes: headBytes,
    body: NO_HTTP_BODY,
  });
  return gate.refuse(draft, refusal);
}

/** Records a request that cannot be read safely. @param head of its request, as far as it could be read */
export function refuseMalformed(
  options: GuestHttpOptions,
  head: RequestHead | undefined,
  { reason }: MessageFault,
  rfc = "RFC 9112",
): Decision {
  return refuseConnection(options, head, {
    id: "guard-malformed-http",
    reason: `the request cannot be read safely: ${reason}`,
    remedy: `send the request as ${rfc} requires`,
  });
}

/** Records the refusal of a connection, or of a request without a readable head. */
export function refuseConnection(
  { context: { gate }, flow, by, names }: GuestHttpOptions,
  head: RequestHead | undefined,
  refusal: Refusal,
): Decision {
  const host = flow.name ?? names.nameOf(flow.address) ?? flow.address;
  const draft = connectDraft(by, flow.scheme, host, flow.port);
  // The method is the only part of the request that is safe to record.
  draft.http!.request.method = head?.method ?? "";
  return gate.refuse(draft, refusal);
}

/** Host that a request names; for HTTP/1.0 without a Host header, the connection's. @throws {MessageFault} */
function authorityOf({ flow, names }: GuestHttpOptions, { old, headers }: RequestHead): Authority {
  const hosts = headers.filter(([name]) => name === "host");
  if (hosts.length > 1) throw new MessageFault("more than one Host header");
  if (hosts.length === 0 && !old) throw new MessageFault("missing Host header");
  const text = hosts[0]?.[1] ??
    formatAuthority(flow.scheme, flow.name ?? names.nameOf(flow.address) ?? flow.address, flow.port);
  const authority = parseAuthority(text);
  if (!authority) throw new MessageFault("invalid Host header");
  return authority;
}

/**
 * True for a request to the metadata server of a cloud, by its address; its name at
 * another address does not count.
 */
function namesMetadata({ scheme, address, port }: Flow, authority: Authority): boolean {
  if (scheme !== "http" || port !== 80 || (authority.port ?? 80) !== 80) return false;
  const isNamed = plainHost(authority.host) === METADATA_NAME;
  return address === METADATA_ADDRESS
    ? isNamed || authority.host === METADATA_ADDRESS
    : address === METADATA_ALIAS && isNamed;
}

function frontingRefusal(reason: string): Refusal {
  return {
    id: "guard-domain-fronting",
    reason,
    remedy: "look the name up again, and connect to its address",
  };
}

function pathRefusal(fault: string): Refusal {
  return {
    id: "guard-ambiguous-path",
    reason: `servers read the path of the request in different ways: ${fault}`,
    remedy: "send the path in the form of RFC 3986, without it",
  };
}

function expectsContinue({ headers, old }: RequestHead): boolean {
  return !old && headers.some(([name, value]) => name === "expect" && value.toLowerCase() === "100-continue");
}

/** Path and query of a request target, which may be a whole URL (RFC 9112 §3.2). @throws {MessageFault} */
function originForm({ method, target }: RequestHead, { host, port }: Authority, flow: Flow): string {
  // A tunnel through an upstream would hide its requests, in any form of its target.
  if (method === "CONNECT") throw new MessageFault("a CONNECT request: connect to the host itself");
  if (target.startsWith("/") || target === "*" && method === "OPTIONS") return target;
  const [, scheme, authority, path] = /^(https?):\/\/([^/?]+)([/?].*)?$/i.exec(target) ?? [];
  const inTarget = authority === undefined ? undefined : parseAuthority(authority);
  if (!inTarget) throw new MessageFault("invalid request target");
  if (scheme.toLowerCase() !== flow.scheme) throw new MessageFault("another scheme in the request target");
  if (inTarget.host !== host || inTarget.port !== port) {
    throw new MessageFault("another host in the request target than in the Host header");
  }
  return path === undefined ? "/" : path.startsWith("?") ? `/${path}` : path;
}
