import { asSbxError, errorBody, statusOf } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { DESKTOP_CODES, type DesktopGate, isDesktopPath } from "./desktop/mod.ts";
import {
  addResponseHeaders,
  corsHeaders,
  filterRequestHeaders,
  parseTarget,
  preflight,
  type RequestTarget,
  requireLocalHost,
  requireLocalOrigin,
} from "./request.ts";
import { type MethodMatcher, noRoute, pathNamer } from "./route.ts";
import { ROUTES } from "./routes.ts";
import { isSocketPath, proxySocket } from "./socket.ts";
import { bearer, type TokenGate } from "./token.ts";
import { BODY_MAX, requestBody, type Upstream } from "./upstream.ts";

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
    parts.log.debug(`${request.method} ${nameOf(request.url)} ${response.status}`);
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
