/** Streamable HTTP on 127.0.0.1, with the gateway's token. */
// @ts-types="@modelcontextprotocol/sdk/server/webStandardStreamableHttp"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { log, say } from "../../lib/base/log/mod.ts";
import {
  bearer,
  corsHeaders,
  parseTarget,
  preflight,
  requireLocalHost,
  requireLocalOrigin,
  TokenGate,
} from "../../lib/client/gateway/mod.ts";
import { rememberPort } from "../../lib/base/port/mod.ts";
import type { Host } from "./host.ts";
import { makeServer } from "./server.ts";

/**
 * `bytes` of one request, the limit of the gateway (docs/design/contracts/02-http.md §2); enough for a file
 * of 7 MiB as base64 in JSON.
 */
const BODY_MAX = 10 * 1024 * 1024;
const PATH = "/mcp";

/** Serves until SIGTERM or SIGINT. @throws {SbxError} `mcp.port_taken`: another program uses the port */
export async function serveHttp(host: Host, port: number): Promise<void> {
  const server = listen(port, handler(host));
  await rememberPort(home(), server.addr.port);
  say(
    `sbx-mcp: http://127.0.0.1:${server.addr.port}${PATH}, with the gateway's token as bearer token`,
  );
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => void server.shutdown());
  }
  await server.finished;
}

/**
 * Checks Host, Origin and token as the gateway does. Each request has its own server, without state between
 * requests: there are no sessions to keep open or to steal, and a client that disconnects cancels its call.
 */
function handler(host: Host): (request: Request) => Promise<Response> {
  const gate = new CurrentGate();
  return async (request) => {
    const origin = request.headers.get("origin");
    try {
      const { authority, path } = parseTarget(request.url);
      requireLocalHost(request.headers.get("host"), authority);
      requireLocalOrigin(origin);
      if (request.method === "OPTIONS") return preflight(origin);
      await gate.check(bearer(request.headers));
      if (path !== PATH) {
        throw new SbxError("route.not_found", `no route ${path}`, { hint: `MCP is at ${PATH}` });
      }
      const response = await respond(request, host);
      for (const [name, value] of corsHeaders(origin)) response.headers.append(name, value);
      return response;
    } catch (error) {
      const failure = asSbxError(error, "the request");
      if (failure.code === "internal") log.error("sbx-mcp:", failure.cause);
      const status = statusOf(failure.code);
      const headers = corsHeaders(origin);
      if (status === 401) headers.push(["www-authenticate", "Bearer"]);
      if (status === 429) headers.push(["retry-after", "60"]);
      return Response.json(errorBody(failure), { status, headers });
    }
  };
}

async function respond(request: Request, host: Host): Promise<Response> {
  // Without sessions there is no stream to open by GET, and no session to end by DELETE.
  if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
  const server = makeServer(host);
  const transport = new WebStandardStreamableHTTPServerTransport({ maxRequestBodySize: BODY_MAX });
  request.signal.addEventListener("abort", () => void server.close());
  await server.connect(transport);
  return await transport.handleRequest(request);
}

/** The token gate of the running gateway; each start of the gateway writes a new token. */
class CurrentGate {
  #token?: string;
  #gate?: TokenGate;

  async check(presented: string | undefined): Promise<void> {
    const token = (await Deno.readTextFile(home().gatewayTokenFile).catch(() => "")).trim();
    if (token === "") {
      throw new SbxError("auth.bad_token", "the gateway is not running, so no token is valid", {
        hint: "start it with sbx start",
      });
    }
    if (token !== this.#token) {
      this.#token = token;
      this.#gate = new TokenGate(token);
    }
    this.#gate!.check(presented);
  }
}

function listen(
  port: number,
  handle: (request: Request) => Promise<Response>,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, handle);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
    throw new SbxError("mcp.port_taken", `another program is listening on 127.0.0.1:${port}`, {
      cause,
      hint: "choose another port with sbx-mcp --http --port N; 0 selects a free one",
    });
  }
}
