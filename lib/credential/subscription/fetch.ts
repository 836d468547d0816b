/** Requests of the host to a provider's authorization server; failures are in sbx's own words. */
import { SbxError } from "../../base/error/mod.ts";
import { readAnswer } from "../../base/json/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";

/** Longest time in `ms` for one request. */
const REQUEST_MS = timeLimit(30_000);
/** Most `bytes` and levels of an answer; real ones have a few KB. */
const ANSWER = { bytes: 256 * 1024, depth: 16 };

const OFFLINE = "check that this machine is connected to the network";

/** Codes of OAuth (RFC 6749, 8628) that are shown: any other text of a server may hold a token. */
const KNOWN = [
  "access_denied",
  "expired_token",
  "invalid_client",
  "invalid_grant",
  "invalid_request",
  "invalid_scope",
  "server_error",
  "temporarily_unavailable",
  "unauthorized_client",
  "unsupported_grant_type",
  "unsupported_response_type",
];

export function loginFailed(problem: string, cause?: unknown, hint?: string): SbxError {
  return new SbxError("login.failed", problem, { cause, hint });
}

/** Code of OAuth, if it is a known one. */
export function knownCode(code: unknown): string | undefined {
  return KNOWN.find((known) => known === code);
}

/**
 * Fetch of a login: https, one time limit, no redirects, an answer that is read whole.
 *
 * @param options.json sends the form as JSON: some token endpoints take nothing else
 * @param options.accept forms of answers: some servers have several, and answer
 * with the one that is asked for
 */
export function loginFetch(
  { json = false, accept = "application/json" } = {},
): (url: string, init: RequestInit) => Promise<Response> {
  return async (url, init) => {
    const { host, protocol } = new URL(url);
    if (protocol !== "https:") throw loginFailed(`${host} is not reached over https`);
    const limit = AbortSignal.timeout(REQUEST_MS);
    const signal = init.signal ? AbortSignal.any([init.signal, limit]) : limit;
    const headers = new Headers(init.headers);
    headers.set("accept", accept);
    headers.set("user-agent", `sbx/${VERSION}`);
    let { body } = init;
    if (json && body instanceof URLSearchParams) {
      body = JSON.stringify(Object.fromEntries(body));
      headers.set("content-type", "application/json");
    }
    try {
      const response = await hostFetch(url, { ...init, body, headers, redirect: "manual", signal });
      const bytes = await readAnswer(
        response,
        ANSWER,
        (problem) => loginFailed(`an answer of ${host} ${problem}`),
      );
      return new Response(bytes, { status: statusOf(response, bytes), headers: response.headers });
    } catch (cause) {
      if (limit.aborted) throw loginFailed(`${host} did not answer in time`, undefined, OFFLINE);
      if (cause instanceof SbxError || init.signal?.aborted) throw cause;
      throw loginFailed(`${host} cannot be reached`, cause, OFFLINE);
    }
  };
}

/** GitHub answers an error of OAuth with status 200. */
function statusOf({ status }: Response, bytes: Uint8Array): number {
  if (status !== 200) return status;
  try {
    const answer: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return isObject(answer) && typeof answer.error === "string" ? 400 : status;
  } catch {
    return status;
  }
}
