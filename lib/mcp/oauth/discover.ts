/** Discovery of the authorization server of an MCP server (RFC 9728, RFC 8414, OpenID Connect). */
// @ts-types="@modelcontextprotocol/sdk/client/auth"
import {
  discoverAuthorizationServerMetadata,
  extractWWWAuthenticateParams,
} from "@modelcontextprotocol/sdk/client/auth.js";
// @ts-types="@modelcontextprotocol/sdk/shared/auth"
import {
  type AuthorizationServerMetadata,
  type OAuthProtectedResourceMetadata,
  OAuthProtectedResourceMetadataSchema,
} from "@modelcontextprotocol/sdk/shared/auth.js";
// @ts-types="@modelcontextprotocol/sdk/shared/auth-utils"
import { checkResourceAllowed } from "@modelcontextprotocol/sdk/shared/auth-utils.js";
import { VERSION } from "../../base/version/mod.ts";
import { SCOPE_CHARS_MAX } from "../limit.ts";
import { checkTarget, loginFailed, type LoginFetch, loginFetch, step } from "./fetch.ts";

/** Demand of a server, from `WWW-Authenticate`. */
export interface Challenge {
  metadataUrl?: URL;
  scope?: string;
  error?: string;
}

/** Where a login at a server goes. */
export interface Discovery {
  /** URL of the authorization server */
  issuer: string;
  /** absent: a server of the MCP version 2025-03-26, which has its endpoints at fixed paths */
  metadata?: AuthorizationServerMetadata;
  /** whether every redirect names the authorization server (RFC 9207) */
  namesIssuer: boolean;
  /** resource indicator (RFC 8707) */
  resource: string;
  /** scopes to ask for, unless the person names some */
  scope?: string;
}

/** Reads the demand of a server; a scope that is not one is dropped. */
export function challengeOf(response: Response): Challenge {
  const { resourceMetadataUrl, scope, error } = extractWWWAuthenticateParams(response);
  return { metadataUrl: resourceMetadataUrl, scope: scope && cleanScope(scope), error };
}

/** Scopes in the format of RFC 6749, without duplicates; `undefined` when empty or too long. */
export function cleanScope(...texts: (string | undefined)[]): string | undefined {
  const tokens = texts.flatMap((text) => text?.split(" ") ?? []).filter((token) => token !== "");
  const scope = [...new Set(tokens)].join(" ");
  return /^[\x21\x23-\x5b\x5d-\x7e ]+$/.test(scope) && scope.length <= SCOPE_CHARS_MAX ? scope : undefined;
}

/**
 * Finds the authorization server of an MCP server.
 *
 * @throws {SbxError} `mcp.login.failed`: not found, or metadata that contradicts itself
 */
export async function discover(server: URL, fetch: LoginFetch): Promise<Discovery> {
  const { isAsked, metadataUrl, scope } = await probe(server);
  const resource = await protectedResource(server, metadataUrl, fetch);
  if (!resource && !isAsked) throw loginFailed(`${server.host} does not ask for a login`);
  const issuer = resource?.authorization_servers?.[0] ?? server.origin;
  checkTarget(issuer, "the authorization server", server);
  let namesIssuer = false;
  // The SDK's schema of OpenID Connect drops this field.
  const watched: LoginFetch = async (url, init) => {
    const response = await fetch(url, init);
    const fields = response.ok ? await response.clone().json().catch(() => undefined) : undefined;
    namesIssuer = fields?.authorization_response_iss_parameter_supported === true;
    return response;
  };
  const metadata = await step(
    "the discovery of the authorization server",
    () => discoverAuthorizationServerMetadata(issuer, { fetchFn: watched }),
  );
  if (metadata) checkMetadata(metadata, issuer, server);
  else if (resource) throw loginFailed(`the authorization server ${new URL(issuer).host} has no metadata`);
  return {
    issuer,
    metadata,
    namesIssuer,
    resource: resource?.resource ?? new URL(server.pathname, server).href,
    // A login without this scope would end with its first token at servers that have it.
    scope: cleanScope(
      scope ?? resource?.scopes_supported?.join(" "),
      metadata?.scopes_supported?.find((each) => each === "offline_access"),
    ),
  };
}

/**
 * Asks the server for its demand, as a client without a token: some show it only after the session has begun.
 */
async function probe(server: URL): Promise<Challenge & { isAsked: boolean }> {
  const fetch = loginFetch(server, { headOnly: true });
  const post = (method: string, params: unknown, session?: string | null) =>
    fetch(server, {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...(session && { "mcp-session-id": session }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 0, method, params }),
    });
  const clientInfo = { name: "sbx", version: VERSION };
  let asked = await post("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  if (asked.ok) asked = await post("tools/list", {}, asked.headers.get("mcp-session-id"));
  // Servers of the older transport know GET only.
  else if (asked.status === 405) asked = await fetch(server, { headers: { accept: "text/event-stream" } });
  return { ...challengeOf(asked), isAsked: asked.status === 401 };
}

/** Reads the metadata of the server as a resource. @returns `undefined` when it has none */
async function protectedResource(
  server: URL,
  named: URL | undefined,
  fetch: LoginFetch,
): Promise<OAuthProtectedResourceMetadata | undefined> {
  if (named && named.origin !== server.origin) {
    throw loginFailed(`${server.host} names metadata on another host, which has no authority over it`);
  }
  const path = server.pathname.replace(/\/$/, "");
  const wellKnown = "/.well-known/oauth-protected-resource";
  const places = named
    ? [named]
    : [...new Set([wellKnown + path, wellKnown])].map((at) => new URL(at, server));
  for (const place of places) {
    const response = await fetch(place, { headers: { accept: "application/json" } });
    if (!response.ok) {
      if (named || response.status >= 500) {
        throw loginFailed(`${place.host} does not serve the metadata that it names`);
      }
      continue;
    }
    const metadata = await step(
      "reading the metadata of the server",
      async () => OAuthProtectedResourceMetadataSchema.parse(await response.json()),
    );
    if (!checkResourceAllowed({ requestedResource: server, configuredResource: metadata.resource })) {
      throw loginFailed(`the metadata of ${server.host} belongs to another resource`);
    }
    return metadata;
  }
}

/**
 * Checks the metadata of an authorization server: whose it is (RFC 8414, section 3.3), its endpoints, PKCE.
 */
function checkMetadata(metadata: AuthorizationServerMetadata, issuer: string, server: URL): void {
  const { host } = new URL(issuer);
  if (URL.parse(metadata.issuer)?.href !== new URL(issuer).href) {
    throw loginFailed(`the metadata of the authorization server ${host} belongs to another issuer`);
  }
  checkTarget(metadata.authorization_endpoint, "the authorization endpoint", server);
  checkTarget(metadata.token_endpoint, "the token endpoint", server);
  if (metadata.registration_endpoint) {
    checkTarget(metadata.registration_endpoint, "the registration endpoint", server);
  }
  if (!metadata.code_challenge_methods_supported?.includes("S256")) {
    throw loginFailed(`the authorization server ${host} does not promise PKCE with S256`);
  }
}
