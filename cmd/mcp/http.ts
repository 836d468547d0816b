/** Streamable HTTP on 127.0.0.1, behind the gateway's token. */
// @ts-types="@modelcontextprotocol/sdk/server/webStandardStreamableHttp"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/base/error/mod.ts";
import { corsHeaders, preflight, requireLocalHost, requireLocalOrigin } from "../../lib/gateway/origin.ts";
import { parseTarget } from "../../lib/gateway/target.ts";
import { bearer, TokenGate } from "../../lib/gateway/token.ts";
import { home } from "../../lib/base/home/mod.ts";
import type { Host } from "./host.ts";
import { makeServer } from "./server.ts";
import { log, say } from "../../lib/base/log/mod.ts";

/** Bytes of one request, as the gateway takes them (contracts.md §2); base64 in JSON makes a file of 7 MiB that large. */
const BODY_MAX = 10 * 1024 * 1024;
const PATH = "/mcp";

/** Serves until SIGTERM or SIGINT. @throws SbxError `mcp.port_taken` */
export async function serveHttp(host: Host, port: number): Promise<void> {
  const server = listen(port, handler(host));
  say(
    `sbx-mcp: http://127.0.0.1:${server.addr.port}${PATH}, with the gateway's token as bearer token`,
  );
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => void server.shutdown());
  }
  await server.finished;
}

/**
 * Host, Origin and token are checked as the gateway checks its own. Nothing is kept between requests: each has a server
 * of its own, so there are no sessions to hold open or to steal, and a client that goes away cancels its call.
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
        throw new SbxError("route.not_found", `there is nothing at ${path}; MCP is at ${PATH}`);
      }
      const answer = await answerTo(request, host);
      for (const [name, value] of corsHeaders(origin)) answer.headers.append(name, value);
      return answer;
    } catch (error) {
      const known = asSbxError(error, "the request");
      if (known.code === "internal") log("sbx-mcp:", known.cause);
      const status = statusOf(known.code);
      const headers = corsHeaders(origin);
      if (status === 401) headers.push(["www-authenticate", "Bearer"]);
      if (status === 429) headers.push(["retry-after", "60"]);
      return Response.json(errorBody(known), { status, headers });
    }
  };
}

async function answerTo(request: Request, host: Host): Promise<Response> {
  // Without a session there is nothing that a stream of the server's own could carry, nor anything to end.
  if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
  const server = makeServer(host);
  const transport = new WebStandardStreamableHTTPServerTransport({ maxRequestBodySize: BODY_MAX });
  request.signal.addEventListener("abort", () => void server.close());
  await server.connect(transport);
  return await transport.handleRequest(request);
}

/** The gate of the gateway that runs now: each start of it writes a new token. */
class CurrentGate {
  #token?: string;
  #gate?: TokenGate;

  async check(presented: string | undefined): Promise<void> {
    const token = (await Deno.readTextFile(home().gatewayTokenFile).catch(() => "")).trim();
    if (token === "") {
      throw new SbxError(
        "auth.bad_token",
        "the gateway, whose token would let this request in, does not run",
        {
          hint: "sbx start starts it",
        },
      );
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
    throw new SbxError("mcp.port_taken", `another program listens on 127.0.0.1:${port}`, {
      cause,
      hint: "sbx-mcp --http --port N takes another one, 0 any that is free",
    });
  }
}
