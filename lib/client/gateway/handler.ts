/**
 * Every request of the gateway: who may send it, where it goes, and which of its headers go along
 * (docs/design/contracts/02-http.md §2).
 */
import { asSbxError, errorBody, SbxError, statusOf } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { API_VERSION, API_VERSION_HEADER } from "../../base/version/mod.ts";
import { DESKTOP_CODES, type DesktopGate, isDesktopPath } from "./desktop/mod.ts";
import { type MethodMatcher, noRoute, pathNamer } from "./route.ts";
import { ROUTES } from "./routes.ts";
import { isSocketPath, proxySocket } from "./socket.ts";
import { bearer, type TokenGate } from "./token.ts";
import { BODY_MAX, discardBody, requestBody, type Upstream } from "./upstream.ts";

/** `ms` for the service to answer the check of `GET /health`. */
const HEALTH_TIMEOUT_MS = timeLimit(2000);

/** Parts of the gateway. */
export interface GatewayParts {
  gate: TokenGate;
  desktop: DesktopGate;
  /** the service's route table */
  methodsOf: MethodMatcher;
  upstream: Upstream;
  /** HTTP client for WebSockets on the service's Unix socket */
  socketClient: Deno.HttpClient;
  /** SemVer in the response of `GET /health` */
  version: string;
  /** `error` receives causes of internal errors, which users do not see; `debug` each request by its route */
  log: Record<"error" | "debug", (line: string) => void>;
}

/** How a request arrived: by TCP, open to any program of the machine, or by a socket in its user's folder. */
export type Entrance = "tcp" | "socket";

/**
 * Makes the HTTP handler: checks Host, Origin, token and allow-list, then forwards to the service
 * (docs/design/contracts/02-http.md §2). The file system has checked who comes by the socket.
 */
export function gatewayHandler(
  parts: GatewayParts,
  entrance: Entrance = "tcp",
): (request: Request) => Promise<Response> {
  return async (request) => {
    const origin = request.headers.get("origin");
    const response = await route(request, origin, parts, entrance === "socket").catch((error) =>
      errorResponse(error, origin, parts)
    );
    if (response.status !== 101) response.headers.set(API_VERSION_HEADER, API_VERSION);
    parts.log.debug(`${request.method} ${nameOf(request.url)} ${response.status}`);
    // A refused request, whose body was not begun.
    const body = response.status >= 400 ? request.body : null;
    if (body !== null && !request.bodyUsed && !body.locked) discardBody(body);
    return response;
  };
}

/** Name of a request's path for the log. */
function nameOf(url: string): string {
  return pathName(/^(?:[a-z+]+:\/\/[^/?#]*)?([^?#]*)/i.exec(url)![1]);
}

const pathName = pathNamer(ROUTES);

async function route(
  request: Request,
  origin: string | null,
  parts: GatewayParts,
  isOwner: boolean,
): Promise<Response> {
  const target = parseTarget(request.url);
  const { desktop } = parts;
  if (!isOwner) {
    requireLocalHost(request.headers.get("host"), target.authority, (host) => desktop.isHost(host));
  }
  if (request.method === "OPTIONS" && request.headers.has("access-control-request-method")) {
    requireLocalOrigin(origin);
    return preflight(origin);
  }
  if (target.path === "/health" && request.method === "GET") return await checkHealth(origin, parts);
  if (isDesktopPath(target.path)) return await desktop.answer(request, target.path);
  const isSocket = isSocketPath(target.path);
  if (isSocket && !desktop.isOrigin(origin)) requireLocalOrigin(origin);
  const token = bearer(request.headers) ?? (isSocket ? target.token : undefined);
  if (!isOwner && (token !== undefined || !await desktop.admits(request))) parts.gate.check(token);
  if (target.path === DESKTOP_CODES && request.method === "POST" && (isOwner || token !== undefined)) {
    return desktop.issue();
  }
  if (isSocket) {
    const { socketClient, upstream } = parts;
    const protocol = desktop.protocolOf(request);
    return await proxySocket(request, target.path + target.query, socketClient, upstream, protocol);
  }
  const methods = parts.methodsOf(target.path);
  const { method } = request;
  if (!methods.includes(method === "HEAD" ? "GET" : method)) {
    const response = noRoute(method, target.path, methods);
    for (const [name, value] of corsHeaders(origin)) response.headers.append(name, value);
    return response;
  }
  return await forward(request, target, origin, parts.upstream);
}

async function forward(
  request: Request,
  target: RequestTarget,
  origin: string | null,
  upstream: Upstream,
): Promise<Response> {
  const reply = await upstream.send({
    method: request.method,
    target: target.path + target.query,
    headers: filterRequestHeaders(request.headers),
    body: await requestBody(request, isFile(request.method, target.path) ? Infinity : BODY_MAX),
    signal: () => request.signal,
  });
  const { status, headers, body } = reply;
  const response = new Response(status === 204 || status === 304 ? null : body, { status });
  addResponseHeaders(response.headers, headers);
  for (const [name, value] of corsHeaders(origin)) response.headers.append(name, value);
  return response;
}

/** True if a request writes a file of a workspace, which the service streams to the disk. */
function isFile(method: string, path: string): boolean {
  return method === "POST" && pathName(path) === "/vms/{id}/files/content";
}

/** Reports, without a token, that the gateway is running and whether the service is. */
async function checkHealth(origin: string | null, { upstream, version }: GatewayParts): Promise<Response> {
  const signal = () => AbortSignal.timeout(HEALTH_TIMEOUT_MS);
  const service = await upstream.send({ method: "GET", target: "/version", headers: [], signal })
    .then(async ({ body }) => {
      if (body instanceof ReadableStream) await body.cancel();
      return true;
    }, () => false);
  return Response.json({ ok: true, version, service }, { headers: corsHeaders(origin) });
}

function errorResponse(error: unknown, origin: string | null, parts: GatewayParts): Response {
  const failure = asSbxError(error, "forwarding the request");
  if (failure.code === "internal") parts.log.error(`internal error: ${describe(failure.cause)}`);
  const headers = corsHeaders(origin);
  if (failure.code === "auth.too_many_failures") {
    headers.push(["retry-after", String(parts.gate.retryAfter())]);
  }
  const status = statusOf(failure.code);
  if (status === 401) headers.push(["www-authenticate", "Bearer"]);
  // The rest of the body is still in transit, so no other request can follow on this connection.
  if (status === 413) headers.push(["connection", "close"]);
  return Response.json(errorBody(failure), { status, headers });
}

function describe(cause: unknown): string {
  return cause instanceof Error ? cause.stack! : String(cause);
}

/** Target of a request, split but not normalized: the checked bytes are the bytes that are forwarded. */
interface RequestTarget {
  /** host and port as received by the server */
  authority: string;
  /** from the first `/`, still percent-encoded */
  path: string;
  /** query with its `?` and without `token`; may be empty */
  query: string;
  /** value of `?token=` */
  token?: string;
}

/**
 * Splits the URL of a request.
 *
 * @throws {SbxError} `request.invalid`: characters that are not allowed in a URL
 */
export function parseTarget(url: string): RequestTarget {
  const parts = /^(?:https?|http\+unix):\/\/([^/?#\\]*)(\/[^?]*)?(?:\?(.*))?$/i.exec(url);
  if (parts === null || !/^[\x21-\x7e]*$/.test(url) || /[#\\]/.test(url)) {
    throw new SbxError(
      "request.invalid",
      "the request target contains characters that are not allowed in a URL",
      {
        hint: "percent-encode them",
      },
    );
  }
  const [, authority, path = "/", query = ""] = parts;
  const pairs = query.split("&").filter((pair) => pair !== "");
  const forwarded = pairs.filter((pair) => parameterOf(pair) !== "token");
  const token = pairs.length === forwarded.length
    ? undefined
    : new URLSearchParams(query).get("token") ?? undefined;
  return { authority, path, query: forwarded.length === 0 ? "" : `?${forwarded.join("&")}`, token };
}

function parameterOf(pair: string): string | undefined {
  return new URLSearchParams(pair).keys().next().value;
}

// Host and Origin: only pages of this machine may use the gateway.

const LOCAL = "(?:localhost|127\\.0\\.0\\.1|\\[::1\\])(?::\\d{1,5})?";
const HOST = new RegExp(`^${LOCAL}$`, "i");
const ORIGIN = new RegExp(`^https?://${LOCAL}$`, "i");
/** `s` for which a browser may cache a preflight. */
const PREFLIGHT_MAX_AGE_SECS = 600;

/**
 * Requires a Host of this machine: a page whose host name resolves to 127.0.0.1 (DNS
 * rebinding) still sends that name.
 *
 * @param authority authority of the request's URL, which differs from Host for an absolute-form target
 * @param isOwn tests for a further name, such as the desktop page's
 * @throws {SbxError} `auth.bad_host`
 */
export function requireLocalHost(
  host: string | null,
  authority: string,
  isOwn: (host: string) => boolean = () => false,
): void {
  const isLocal = (name: string) => HOST.test(name) || isOwn(name);
  if (host !== null && isLocal(host) && isLocal(authority)) return;
  throw new SbxError(
    "auth.bad_host",
    "invalid Host header: only localhost, 127.0.0.1 and [::1] are allowed",
    {
      hint: "use http://127.0.0.1 and the port in gateway.port",
    },
  );
}

/**
 * Requires a local Origin, or none, as in requests that no browser sends.
 *
 * @throws {SbxError} `auth.bad_origin`
 */
export function requireLocalOrigin(origin: string | null): void {
  if (origin === null || ORIGIN.test(origin)) return;
  throw new SbxError("auth.bad_origin", "invalid Origin header: pages of other sites are not allowed", {
    hint: "open the page from http://localhost",
  });
}

/** CORS headers that allow a local page to read the response. */
export function corsHeaders(origin: string | null): [string, string][] {
  if (origin === null) return [];
  if (!ORIGIN.test(origin)) return [["vary", "Origin"]];
  return [
    ["vary", "Origin"],
    ["access-control-allow-origin", origin],
    ["access-control-expose-headers", "retry-after"],
  ];
}

/** Response to a preflight of a local page. */
export function preflight(origin: string | null): Response {
  return new Response(null, {
    status: 204,
    headers: [
      ["access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE"],
      [
        "access-control-allow-headers",
        `authorization, content-type, accept, idempotency-key, ${API_VERSION_HEADER}`,
      ],
      ["access-control-max-age", String(PREFLIGHT_MAX_AGE_SECS)],
      ...corsHeaders(origin),
    ],
  });
}

// Headers that the gateway passes on.

/** Headers of a single connection (RFC 9110 §7.6.1), and headers that the gateway sets itself. */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
];
/**
 * Headers withheld from the service: the token, the host, cookies of other programs on localhost (cookies
 * ignore ports), `expect` (the gateway has already read the start of the body) `x-sbx-desktop` (the key of a
 * signed-in page) and `accept-encoding` (compression costs more than it saves on one machine).
 */
const NOT_FORWARDED = new Set([
  ...HOP_BY_HOP,
  "authorization",
  "host",
  "cookie",
  "expect",
  "accept-encoding",
  "x-sbx-desktop",
]);
const NOT_RETURNED = new Set([...HOP_BY_HOP, "set-cookie"]);

/** Request headers for the service, without those listed in `Connection`. */
export function filterRequestHeaders(headers: Headers): [string, string][] {
  const hopByHop = connectionNames(headers.get("connection"));
  const filtered: [string, string][] = [];
  // An iterator over Headers takes seven times as long.
  headers.forEach((value, name) => {
    if (!NOT_FORWARDED.has(name) && !hopByHop.has(name)) filtered.push([name, value]);
  });
  return filtered;
}

/** Adds the service's response headers one by one, which is twice as fast as passing them to `Response`. */
export function addResponseHeaders(to: Headers, headers: [string, string][]): void {
  const hopByHop = connectionNames(headers.find(([name]) => name === "connection")?.[1] ?? null);
  for (const [name, value] of headers) {
    if (!NOT_RETURNED.has(name) && !hopByHop.has(name)) to.append(name, value);
  }
  to.set("x-content-type-options", "nosniff");
}

const NONE: ReadonlySet<string> = new Set();

function connectionNames(value: string | null): ReadonlySet<string> {
  return value === null ? NONE : new Set(value.toLowerCase().split(",").map((name) => name.trim()));
}
