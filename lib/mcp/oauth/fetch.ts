/**
 * Requests to addresses that an MCP server or its authorization server names, both of
 * which may lie; failures of a login.
 */
import { isPrivateHost } from "../../base/address/mod.ts";
import { readAnswer } from "../../base/json/mod.ts";
import { isLoopbackHost } from "../../base/url/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { OAUTH_BYTES_MAX, OAUTH_DEPTH_MAX, OAUTH_REQUEST_MS } from "../limit.ts";
import { SbxError } from "../../base/error/mod.ts";

const LIMITS = { bytes: OAUTH_BYTES_MAX, depth: OAUTH_DEPTH_MAX };

/** `fetch` of one login. */
export type LoginFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Checks an address before anything is sent to it: https, and for a server on this machine also plain http on
 * this machine. Only a server with a private address can name private addresses.
 *
 * @param what name of the address, for the error
 * @param server URL of the MCP server
 * @throws {SbxError} `mcp.login.failed`
 */
export function checkTarget(text: string | URL, what: string, server: URL): URL {
  const url = URL.parse(String(text));
  if (!url || url.username || url.password) throw loginFailed(`${what} is not a URL`);
  const isHere = isLoopbackHost(url.hostname) && isLoopbackHost(server.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isHere)) {
    throw loginFailed(`${what} is not https`);
  }
  if (!isHere && isPrivateHost(url.hostname) && !isPrivateHost(server.hostname)) {
    throw loginFailed(`${what} is a private address, which a public server cannot name`);
  }
  return url;
}

/**
 * Makes the `fetch` of a login: checked addresses, one time limit a request,
 * small answers that are read whole.
 *
 * @param options.headOnly answers without their bodies, which may be streams
 */
export function loginFetch(server: URL, { headOnly = false } = {}): LoginFetch {
  return async (to, init) => {
    const url = checkTarget(to, "an address of the authorization server", server);
    const limit = AbortSignal.timeout(OAUTH_REQUEST_MS);
    try {
      const response = await hostFetch(url, { ...init, redirect: "manual", signal: limit });
      if (headOnly) await response.body?.cancel();
      const body = headOnly
        ? null
        : await readAnswer(response, LIMITS, (problem) => loginFailed(`an answer of ${url.host} ${problem}`));
      const isEmpty = [101, 204, 205, 304].includes(response.status);
      return new Response(isEmpty ? null : body, { status: response.status, headers: response.headers });
    } catch (cause) {
      if (limit.aborted) throw loginFailed(`${url.host} did not answer in time`, cause);
      if (cause instanceof TypeError) throw loginFailed(`${url.host} cannot be reached`, cause);
      throw cause;
    }
  };
}

// Failures of a login, in sbx's own words: a server's text may contain anything, even a token.

/** Error codes of OAuth (RFC 6749, 7591, 8707) that are shown. */
const KNOWN = [
  "access_denied",
  "invalid_client",
  "invalid_client_metadata",
  "invalid_grant",
  "invalid_redirect_uri",
  "invalid_request",
  "invalid_scope",
  "invalid_target",
  "server_error",
  "temporarily_unavailable",
  "unauthorized_client",
  "unsupported_grant_type",
  "unsupported_response_type",
];

/** Failure of a login. */
export function loginFailed(problem: string, cause?: unknown, hint?: string): SbxError {
  return new SbxError("mcp.login.failed", problem, { cause, hint });
}

/** Code of OAuth, if it is a known one. */
export function knownCode(code: unknown): string | undefined {
  return KNOWN.find((known) => known === code);
}

/** Code of an error of the OAuth client. */
export function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error ? knownCode((error as { errorCode?: unknown }).errorCode) : undefined;
  // The client calls every answer so that is no error of OAuth.
  return code === "server_error" ? undefined : code;
}

/** Runs a step of a login. @throws {SbxError} `mcp.login.failed`, without any text of the server */
export async function step<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof SbxError) throw error;
    const code = codeOf(error);
    // The cause is not kept: its text may hold a token.
    throw loginFailed(code ? `${what} was refused: ${code}` : `${what} failed: the answer is not OAuth`);
  }
}
