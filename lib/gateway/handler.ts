import { asSbxError, errorBody, SbxError, statusOf } from "../base/error/mod.ts";
import { requestBody } from "./body.ts";
import { addReturnedHeaders, forwardedHeaders } from "./header.ts";
import { corsHeaders, preflight, requireLocalHost, requireLocalOrigin } from "./origin.ts";
import type { RouteMatcher } from "./route.ts";
import { isSocketPath, proxySocket } from "./socket.ts";
import { parseTarget, type Target } from "./target.ts";
import { bearer, type TokenGate } from "./token.ts";
import type { Upstream } from "./upstream.ts";

/** Milliseconds that the service has to answer when somebody asks for the gateway's health. */
const HEALTH_TIMEOUT_MS = 2000;

/** What the gateway works with. */
export interface GatewayParts {
  gate: TokenGate;
  /** the service's route table */
  routes: RouteMatcher;
  upstream: Upstream;
  /** client for WebSockets on the service's Unix socket */
  socketClient: Deno.HttpClient;
  /** SemVer that `GET /health` tells */
  version: string;
  /** takes what a user is not shown: causes of internal errors */
  log(line: string): void;
}

/** The gateway's HTTP handler: Host, Origin, token, allow-list, then the service (contracts.md §2). */
export function gatewayHandler(parts: GatewayParts): (request: Request) => Promise<Response> {
  return async (request) => {
    const origin = request.headers.get("origin");
    try {
      return await route(request, origin, parts);
    } catch (error) {
      return failure(error, origin, parts);
    }
  };
}

async function route(request: Request, origin: string | null, parts: GatewayParts): Promise<Response> {
  const target = parseTarget(request.url);
  requireLocalHost(request.headers.get("host"), target.authority);
  if (request.method === "OPTIONS" && request.headers.has("access-control-request-method")) {
    requireLocalOrigin(origin);
    return preflight(origin);
  }
  if (target.path === "/health" && request.method === "GET") return await health(origin, parts);
  const socket = isSocketPath(target.path);
  if (socket) requireLocalOrigin(origin);
  parts.gate.check(bearer(request.headers) ?? (socket ? target.token : undefined));
  if (socket) {
    return await proxySocket(request, target.path + target.query, parts.socketClient, parts.upstream);
  }
  if (!parts.routes(request.method, target.path)) {
    throw new SbxError("route.not_found", `the service has no route ${request.method} ${target.path}`, {
      hint: "GET /openapi.json lists the routes",
    });
  }
  return await forward(request, target, origin, parts.upstream);
}

async function forward(
  request: Request,
  target: Target,
  origin: string | null,
  upstream: Upstream,
): Promise<Response> {
  const reply = await upstream.send({
    method: request.method,
    target: target.path + target.query,
    headers: forwardedHeaders(request.headers),
    body: await requestBody(request),
    signal: () => request.signal,
  });
  const { status, headers, body } = reply;
  const answer = new Response(status === 204 || status === 304 ? null : body, { status });
  addReturnedHeaders(answer.headers, headers);
  for (const [name, value] of corsHeaders(origin)) answer.headers.append(name, value);
  return answer;
}

/** Open to anybody on this machine: tells that the gateway is up, and whether the service behind it is. */
async function health(origin: string | null, { upstream, version }: GatewayParts): Promise<Response> {
  const signal = () => AbortSignal.timeout(HEALTH_TIMEOUT_MS);
  const service = await upstream.send({ method: "GET", target: "/version", headers: [], signal })
    .then(async ({ body }) => {
      if (body instanceof ReadableStream) await body.cancel();
      return true;
    }, () => false);
  return Response.json({ ok: true, version, service }, { headers: corsHeaders(origin) });
}

function failure(error: unknown, origin: string | null, parts: GatewayParts): Response {
  const known = asSbxError(error, "passing the request on");
  if (known.code === "internal") parts.log(`internal error: ${describe(known.cause)}`);
  const headers = corsHeaders(origin);
  if (known.code === "auth.too_many_failures") headers.push(["retry-after", String(parts.gate.retryAfter())]);
  const status = statusOf(known.code);
  if (status === 401) headers.push(["www-authenticate", "Bearer"]);
  // The rest of the body is still on its way: no other request can follow it on this connection.
  if (status === 413) headers.push(["connection", "close"]);
  return Response.json(errorBody(known), { status, headers });
}

function describe(cause: unknown): string {
  return cause instanceof Error ? cause.stack ?? cause.message : String(cause);
}
