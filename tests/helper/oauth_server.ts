/** An authorization server on the loopback address, an MCP server that wants its tokens, and a browser. */
import { type Loopback, result, type Script, scriptedServer, tool } from "./mcp_server.ts";
import type { Parsed } from "./json.ts";

/** What the authorization server does unlike a good one. */
export interface OauthScript {
  /** fields that replace those of its metadata; `undefined` leaves one out */
  metadata?: Record<string, unknown>;
  /** path of its metadata; default that of RFC 8414 */
  metadataPath?: string;
  /** answers instead of the endpoint */
  token?(form: URLSearchParams, request: Request): Response | undefined | Promise<Response | undefined>;
  /** `s` until a token ends */
  lifetime?: number;
  /** ids and secrets of clients that were registered by hand */
  clients?: Record<string, string>;
}

/** An authorization server with the state that tests look at. */
export interface OauthServer {
  issuer: string;
  /** requests to the token endpoint */
  tokenRequests: { form: URLSearchParams; authorization: string | null }[];
  /** clients that were registered */
  registrations: Parsed[];
  /** queries of the authorization endpoint */
  authorizations: URLSearchParams[];
  /** scope by valid access token */
  tokens: Map<string, string>;
  refreshTokens: Set<string>;
  close(): Promise<void>;
}

export function oauthServer(script: OauthScript = {}): OauthServer {
  const codes = new Map<
    string,
    { challenge: string; redirect: string; scope: string; resource: string | null }
  >();
  const clients = new Map<string, { secret?: string; redirects?: string[] }>(
    Object.entries(script.clients ?? {}).map(([id, secret]) => [id, { secret }]),
  );
  const abort = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal: abort.signal, onListen() {} },
    async (request) => {
      const url = new URL(request.url);
      switch (url.pathname) {
        case script.metadataPath ?? "/.well-known/oauth-authorization-server":
          return Response.json({
            issuer: state.issuer,
            authorization_endpoint: `${state.issuer}/authorize`,
            token_endpoint: `${state.issuer}/token`,
            registration_endpoint: `${state.issuer}/register`,
            response_types_supported: ["code"],
            code_challenge_methods_supported: ["S256"],
            authorization_response_iss_parameter_supported: true,
            ...script.metadata,
          });
        case "/register": {
          const body = await request.json();
          state.registrations.push(body);
          const id = crypto.randomUUID();
          const isPublic = body.token_endpoint_auth_method === "none";
          const secret = isPublic ? undefined : `client-secret-${crypto.randomUUID()}`;
          clients.set(id, { secret, redirects: body.redirect_uris });
          return Response.json({ ...body, client_id: id, client_secret: secret }, { status: 201 });
        }
        case "/authorize":
          return authorize(url.searchParams);
        case "/token": {
          const form = new URLSearchParams(await request.text());
          state.tokenRequests.push({ form, authorization: request.headers.get("authorization") });
          return await script.token?.(form, request) ??
            await token(form, request.headers.get("authorization"));
        }
      }
      return new Response(null, { status: 404 });
    },
  );
  const state: OauthServer = {
    issuer: `http://127.0.0.1:${server.addr.port}`,
    tokenRequests: [],
    registrations: [],
    authorizations: [],
    tokens: new Map(),
    refreshTokens: new Set(),
    close: async () => {
      abort.abort();
      await server.finished;
    },
  };

  function authorize(query: URLSearchParams): Response {
    state.authorizations.push(query);
    const client = clients.get(query.get("client_id") ?? "");
    const redirect = query.get("redirect_uri") ?? "";
    const isGood = client && (client.redirects?.includes(redirect) ?? true) &&
      query.get("code_challenge_method") === "S256" && query.get("response_type") === "code";
    if (!isGood) return new Response("bad request", { status: 400 });
    const code = crypto.randomUUID();
    const scope = query.get("scope") ?? "";
    codes.set(code, {
      challenge: query.get("code_challenge")!,
      redirect,
      scope,
      resource: query.get("resource"),
    });
    const to = new URL(redirect);
    for (const [name, value] of [["code", code], ["state", query.get("state")!], ["iss", state.issuer]]) {
      to.searchParams.set(name, value);
    }
    return new Response(null, { status: 302, headers: { location: to.href } });
  }

  async function token(form: URLSearchParams, authorization: string | null): Promise<Response> {
    const [id, secret] = authorization?.startsWith("Basic ")
      ? atob(authorization.slice(6)).split(":")
      : [form.get("client_id") ?? "", form.get("client_secret") ?? undefined];
    const client = clients.get(id);
    if (!client || client.secret !== secret) return problem("invalid_client");
    let scope = "";
    if (form.get("grant_type") === "authorization_code") {
      const code = codes.get(form.get("code") ?? "");
      codes.delete(form.get("code") ?? "");
      if (!code || code.redirect !== form.get("redirect_uri") || code.resource !== form.get("resource")) {
        return problem("invalid_grant");
      }
      const digest = await crypto.subtle.digest(
        "SHA-256",
        new TextEncoder().encode(form.get("code_verifier") ?? ""),
      );
      const challenge = new Uint8Array(digest).toBase64({ alphabet: "base64url", omitPadding: true });
      if (challenge !== code.challenge) return problem("invalid_grant");
      scope = code.scope;
    } else if (!state.refreshTokens.delete(form.get("refresh_token") ?? "")) return problem("invalid_grant");
    const access = `access-token-${crypto.randomUUID()}`;
    const refresh = `refresh-token-${crypto.randomUUID()}`;
    state.tokens.set(access, scope);
    state.refreshTokens.add(refresh);
    return Response.json({
      access_token: access,
      token_type: "Bearer",
      refresh_token: refresh,
      expires_in: script.lifetime ?? 3600,
      ...(scope && { scope }),
    });
  }
  return state;
}

function problem(error: string): Response {
  return Response.json({ error, error_description: "words of the server" }, { status: 400 });
}

/** What the MCP server does unlike a good one. */
export interface ProtectedScript extends Script {
  /** fields that replace those of its metadata */
  metadata?: Record<string, unknown>;
  /** header of its 401 */
  challenge?: string;
  /** asks for the token at the list of tools only, for the scope `late` */
  isLate?: boolean;
}

/** An MCP server that answers only to tokens of an authorization server. */
export function protectedServer(oauth: OauthServer, script: ProtectedScript = {}): Loopback {
  const guard = (request: Request) => {
    const token = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    if (oauth.tokens.has(token)) return undefined;
    const { origin } = new URL(request.url);
    const challenge = script.challenge ??
      `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"${
        script.isLate ? ', scope="late"' : ""
      }`;
    return new Response(null, { status: 401, headers: { "www-authenticate": challenge } });
  };
  return scriptedServer({
    ...script,
    initialize: async (request) =>
      (script.isLate ? undefined : guard(request)) ?? await script.initialize?.(request) ??
        result((await request.clone().json()).id, {
          protocolVersion: "2025-06-18",
          capabilities: { tools: {} },
          serverInfo: { name: "protected", version: "1" },
        }),
    tools: script.tools ?? [tool("do")],
    guardList: script.isLate ? guard : undefined,
    call: async (message, request) =>
      guard(request) ?? await script.call?.(message, request) ??
        result(message.id, { content: [{ type: "text", text: "done" }] }),
    stream: (request) => {
      const { pathname, origin } = new URL(request.url);
      if (pathname === "/.well-known/oauth-protected-resource/mcp") {
        return Response.json({
          resource: `${origin}/mcp`,
          authorization_servers: [oauth.issuer],
          scopes_supported: ["read"],
          ...script.metadata,
        });
      }
      return pathname === "/mcp" && script.stream?.(request) || new Response(null, { status: 405 });
    },
  });
}

/** Follows the URL of a login as a browser does. @returns status and text of the last page */
export async function browse(url: string): Promise<{ status: number; text: string; redirect: string }> {
  const answer = await fetch(url, { redirect: "manual" });
  await answer.body?.cancel();
  const redirect = answer.headers.get("location");
  if (!redirect) throw new Error(`the authorization server answered ${answer.status}`);
  const page = await fetch(redirect);
  return { status: page.status, text: await page.text(), redirect };
}
