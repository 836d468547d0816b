/** Failures of a login, in words of sbx: a server's text may hold anything, even a token. */
import { SbxError } from "../../base/error/mod.ts";

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
