/** A login of a person at an MCP server: the authorization code flow with PKCE (MCP, "Authorization"). */
// @ts-types="@modelcontextprotocol/sdk/client/auth"
import {
  exchangeAuthorization,
  registerClient,
  selectClientAuthMethod,
  startAuthorization,
} from "@modelcontextprotocol/sdk/client/auth.js";
// @ts-types="@modelcontextprotocol/sdk/shared/auth"
import type { OAuthClientInformationMixed } from "@modelcontextprotocol/sdk/shared/auth.js";
import type { LoginTerms, OpenLogin } from "../../credential/mod.ts";
import { LOGIN_WAIT_MS } from "../limit.ts";
import { cleanScope, discover, type Discovery } from "./discover.ts";
import { checkTarget, isLoopback, type LoginFetch, loginFetch } from "./fetch.ts";
import { loginFailed, step } from "./problem.ts";
import { RedirectListener } from "./redirect.ts";
import { loginOf } from "./tokens.ts";

export interface LoginRequest {
  /** of the MCP server */
  url: URL;
  /** client that was registered by hand: its id, the ref of its secret, and the secret for a token endpoint */
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
  /** to be opened in a browser; as good as a password until the login ends, so it goes into no argument and no log */
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
  if (server.protocol !== "https:" && !isLoopback(server)) {
    throw loginFailed(
      `${server.host} is reached over plain http, where a token could be read; use an https URL`,
    );
  }
  const fetch = loginFetch(server);
  const found = await discover(server, fetch);
  const scope = cleanScope(found.scope, request.scope);
  const listener = new RedirectListener(port, waitMs);
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
    finished.catch(() => {});
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
