/** Tokens of an authorization server: their stored parts, and their renewal. */
// @ts-types="@modelcontextprotocol/sdk/client/auth"
import { refreshAuthorization } from "@modelcontextprotocol/sdk/client/auth.js";
// @ts-types="@modelcontextprotocol/sdk/shared/auth"
import type { AuthorizationServerMetadata, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import type { LoginTerms, OpenLogin } from "../../credential/mod.ts";
import { cleanScope } from "./discover.ts";
import { loginFetch } from "./fetch.ts";
import { codeOf, loginFailed, step } from "./problem.ts";

/** A login out of tokens. @throws {SbxError} `mcp.login.failed`: tokens that are not bearer tokens */
export function loginOf(tokens: OAuthTokens, terms: LoginTerms, client?: string): OpenLogin {
  if (tokens.token_type.toLowerCase() !== "bearer") {
    throw loginFailed("the authorization server gave a token that is no bearer token");
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
