/** A login of a person at an MCP server: the authorization code flow with PKCE (MCP, "Authorization"). */
// @ts-types="@modelcontextprotocol/sdk/client/auth"
import {
  exchangeAuthorization,
  refreshAuthorization,
  registerClient,
  selectClientAuthMethod,
  startAuthorization,
} from "@modelcontextprotocol/sdk/client/auth.js";
// @ts-types="@modelcontextprotocol/sdk/shared/auth"
import type {
  AuthorizationServerMetadata,
  OAuthClientInformationMixed,
  OAuthTokens,
} from "@modelcontextprotocol/sdk/shared/auth.js";
import type { LoginTerms, OpenLogin } from "../../credential/mod.ts";
import { isLoopbackHost } from "../../base/url/mod.ts";
import { LOGIN_WAIT_MS } from "../limit.ts";
import { cleanScope, discover, type Discovery } from "./discover.ts";
import { checkTarget, codeOf, knownCode, loginFailed, type LoginFetch, loginFetch, step } from "./fetch.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { RedirectListener } from "../../base/loopback/mod.ts";

export interface LoginRequest {
  /** of the MCP server */
  url: URL;
  /**
   * client that was registered by hand: its id, the ref of its secret, and the secret for a token endpoint
   */
  client?: { id: string; ref?: string; secret?(endpoint: URL): Promise<string | undefined> };
  /** scopes besides the ones that the server asks for */
  scope?: string;
  /** port of 127.0.0.1 for the redirect; default: any that is free */
  port?: number;
  /** `ms` for the person; default {@linkcode LOGIN_WAIT_MS} */
  waitMs?: number;
}

/** A login that waits for a person. */
export interface WaitingLogin {
  /**
   * to be opened in a browser; as good as a password until the login ends, so it
   * goes into no argument and no log
   */
  url: string;
  issuer: string;
  scope?: string;
  /** rejects when the login fails or is abandoned */
  finished: Promise<OpenLogin>;
  cancel(): void;
}

/**
 * Begins a login: discovers, registers the client if need be, listens for the redirect.
 *
 * @throws {SbxError} `mcp.login.failed`
 */
export async function beginLogin(request: LoginRequest): Promise<WaitingLogin> {
  const { url: server, port = 0, waitMs = LOGIN_WAIT_MS } = request;
  if (server.protocol !== "https:" && !isLoopbackHost(server.hostname)) {
    throw loginFailed(
      `${server.host} is reached over plain http, where a token could be read; use an https URL`,
    );
  }
  const fetch = loginFetch(server);
  const found = await discover(server, fetch);
  const scope = cleanScope(found.scope, request.scope);
  const listener = new RedirectListener({
    port,
    portHint: "give another one with --port",
    ms: waitMs,
    fail: loginFailed,
    timedOut: (problem) =>
      new SbxError("mcp.login.timeout", problem, { hint: "run the command again, and open its URL" }),
    codeOf: knownCode,
  });
  try {
    const client = await clientOf(request, found, listener.url, scope, fetch);
    const state = crypto.getRandomValues(new Uint8Array(32)).toBase64({
      alphabet: "base64url",
      omitPadding: true,
    });
    const { authorizationUrl, codeVerifier } = await step(
      "the start of the login",
      () =>
        startAuthorization(found.issuer, {
          metadata: found.metadata,
          clientInformation: client,
          redirectUrl: listener.url,
          scope,
          state,
          resource: found.resource,
        }),
    );
    listener.expected = {
      state,
      issuer: found.metadata?.issuer ?? found.issuer,
      namesIssuer: found.namesIssuer,
    };
    const finished = finish(request, found, { client, codeVerifier, scope, listener, fetch });
    finished.catch(ignore("the caller awaits it"));
    return {
      url: authorizationUrl.href,
      issuer: new URL(found.issuer).host,
      scope,
      finished,
      cancel: () => listener.close(),
    };
  } catch (error) {
    listener.close();
    throw error;
  }
}

interface Started {
  client: OAuthClientInformationMixed;
  codeVerifier: string;
  scope?: string;
  listener: RedirectListener;
  fetch: LoginFetch;
}

/** Waits for the code and exchanges it. */
async function finish(
  { client: registered, url: server }: LoginRequest,
  { issuer, metadata, resource }: Discovery,
  { client, codeVerifier, scope, listener, fetch }: Started,
): Promise<OpenLogin> {
  const code = await listener.code;
  const tokens = await step("the exchange of the code", () =>
    exchangeAuthorization(issuer, {
      metadata,
      clientInformation: client,
      authorizationCode: code,
      codeVerifier,
      redirectUri: listener.url,
      resource,
      fetchFn: fetch,
    }));
  const endpoint = metadata?.token_endpoint ?? new URL("/token", issuer).href;
  const methods = metadata?.token_endpoint_auth_methods_supported ?? [];
  const terms: LoginTerms = {
    issuer,
    token_endpoint: checkTarget(endpoint, "the token endpoint", server).href,
    auth_methods: [selectClientAuthMethod(client, methods)],
    client_id: client.client_id,
    ...(registered?.ref && { client_ref: registered.ref }),
    resource,
    scope,
  };
  return loginOf(tokens, terms, registered ? undefined : client.client_secret);
}

/** The client as which sbx logs in: registered by hand, or now (RFC 7591). */
async function clientOf(
  { client }: LoginRequest,
  { issuer, metadata }: Discovery,
  redirect: string,
  scope: string | undefined,
  fetch: LoginFetch,
): Promise<OAuthClientInformationMixed> {
  if (client) {
    const endpoint = new URL(metadata?.token_endpoint ?? new URL("/token", issuer).href);
    const secret = await client.secret?.(endpoint);
    if (client.ref !== undefined && secret === undefined) {
      throw loginFailed(
        `the client's secret ${client.ref} is not in the store for ${endpoint.host}`,
        undefined,
        `add it: sbx credentials add mcp --host ${endpoint.host}`,
      );
    }
    return { client_id: client.id, ...(secret !== undefined && { client_secret: secret }) };
  }
  if (metadata && !metadata.registration_endpoint) {
    throw loginFailed(
      `the authorization server ${new URL(issuer).host} registers no clients`,
      undefined,
      'register sbx there by hand, and give its id: auth = { kind = "oauth", client_id = "…" }',
    );
  }
  const methods = metadata?.token_endpoint_auth_methods_supported ?? [];
  return await step("the registration of sbx", () =>
    registerClient(issuer, {
      metadata,
      clientMetadata: {
        client_name: "sbx",
        redirect_uris: [redirect],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: methodOf(methods),
        application_type: "native",
      } as Parameters<typeof registerClient>[1]["clientMetadata"],
      scope,
      fetchFn: fetch,
    }));
}

/** A public client where that is possible: its secret would be one more to keep. */
function methodOf(methods: readonly string[]): string {
  if (methods.length === 0 || methods.includes("none")) return "none";
  return ["client_secret_basic", "client_secret_post"].find((method) => methods.includes(method)) ?? "none";
}

// Tokens of an authorization server: their stored parts, and their renewal.

/** A login out of tokens. @throws {SbxError} `mcp.login.failed`: tokens that are not bearer tokens */
function loginOf(tokens: OAuthTokens, terms: LoginTerms, client?: string): OpenLogin {
  if (tokens.token_type.toLowerCase() !== "bearer") {
    throw loginFailed("the authorization server issued a token that is not a bearer token");
  }
  const { expires_in, scope, access_token: access, refresh_token: refresh } = tokens;
  const hasEnd = expires_in !== undefined && Number.isFinite(expires_in);
  return {
    terms: {
      ...terms,
      // Scopes are shown; a server could pass a token off as one.
      scope: [access, refresh].some((secret) => secret && scope?.includes(secret))
        ? terms.scope
        : cleanScope(scope) ?? terms.scope,
      expires_at: hasEnd ? Date.now() + Math.max(0, expires_in) * 1000 : undefined,
    },
    access,
    ...(refresh && { refresh }),
    ...(client !== undefined && { client }),
  };
}

/**
 * Renews a login.
 *
 * @param clientSecret of the client, registered by hand or by the login
 * @returns `undefined` when the authorization server does not renew it any more: a person has to log in again
 * @throws {SbxError} `mcp.login.failed`: it cannot be renewed now
 */
export async function renewLogin(
  server: URL,
  login: OpenLogin,
  clientSecret = login.client,
): Promise<OpenLogin | undefined> {
  const { terms, refresh } = login;
  if (refresh === undefined) return undefined;
  let isOver = false;
  const tokens = await step("the renewal of the login", () =>
    refreshAuthorization(terms.issuer, {
      metadata: {
        token_endpoint: terms.token_endpoint,
        token_endpoint_auth_methods_supported: terms.auth_methods,
      } as AuthorizationServerMetadata,
      clientInformation: {
        client_id: terms.client_id,
        ...(clientSecret !== undefined && { client_secret: clientSecret }),
      },
      refreshToken: refresh,
      resource: terms.resource,
      fetchFn: loginFetch(server),
    }).catch((error) => {
      isOver = ["invalid_grant", "invalid_client", "unauthorized_client"].includes(codeOf(error) ?? "");
      if (!isOver) throw error;
    }));
  return isOver || !tokens ? undefined : loginOf(tokens, terms, login.client);
}
