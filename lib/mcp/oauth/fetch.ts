/** Requests to addresses that an MCP server or its authorization server names: both may lie. */
import { isPrivateHost } from "../../base/address/mod.ts";
import { isDeeper } from "../../base/json/mod.ts";
import { joinBytes } from "../../base/bytes/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { OAUTH_BYTES_MAX, OAUTH_DEPTH_MAX, OAUTH_REQUEST_MS } from "../limit.ts";
import { loginFailed } from "./problem.ts";

/** `fetch` of one login. */
export type LoginFetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Tests whether a URL is on this machine. */
export function isLoopback({ hostname }: URL): boolean {
  return LOOPBACK.test(hostname);
}

/**
 * Checks an address before anything is sent to it: https, and for a server on this machine also plain http on this
 * machine. Only a server with a private address can name private addresses.
 *
 * @param what name of the address, for the error
 * @param server URL of the MCP server
 * @throws {SbxError} `mcp.login.failed`
 */
export function checkTarget(text: string | URL, what: string, server: URL): URL {
  const url = URL.parse(String(text));
  if (!url || url.username || url.password) throw loginFailed(`${what} is not a URL`);
  const isHere = isLoopback(url) && isLoopback(server);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isHere)) {
    throw loginFailed(`${what} is not https`);
  }
  if (!isHere && isPrivateHost(url.hostname) && !isPrivateHost(server.hostname)) {
    throw loginFailed(`${what} is a private address, which a public server cannot name`);
  }
  return url;
}

/**
 * Makes the `fetch` of a login: checked addresses, one time limit a request, small answers that are read whole.
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
      const body = headOnly ? null : await readWhole(response, url);
      const isEmpty = [101, 204, 205, 304].includes(response.status);
      return new Response(isEmpty ? null : body, { status: response.status, headers: response.headers });
    } catch (cause) {
      if (limit.aborted) throw loginFailed(`${url.host} did not answer in time`, cause);
      if (cause instanceof TypeError) throw loginFailed(`${url.host} cannot be reached`, cause);
      throw cause;
    }
  };
}

async function readWhole(response: Response, { host }: URL): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > OAUTH_BYTES_MAX) throw loginFailed(`an answer of ${host} exceeds ${OAUTH_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  const bytes = joinBytes(chunks);
  if (isDeeper(new TextDecoder().decode(bytes), OAUTH_DEPTH_MAX)) {
    throw loginFailed(`an answer of ${host} is nested deeper than ${OAUTH_DEPTH_MAX} levels`);
  }
  return bytes;
}
