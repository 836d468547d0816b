/** Sign-in of this browser (docs/design/contracts/02-http.md §2, "Desktop"). */

/**
 * Places of the session's key and of the gateway's public key in the storage of this origin. Its host is of one run of the
 * gateway: a program that has the port afterwards may read them, and no other gateway takes them.
 */
const KEY = "sbx-key", GATEWAY_KEY = "sbx-gateway-key";

/** The key that goes with the cookie; absent in a browser that is not signed in. */
export function sessionKey(): string | null {
  return localStorage.getItem(KEY);
}

/** The public key of the gateway that this browser signed in to. */
export function gatewayKey(): string | null {
  return localStorage.getItem(GATEWAY_KEY);
}

export function forgetSession(): void {
  localStorage.removeItem(KEY);
  localStorage.removeItem(GATEWAY_KEY);
}

/**
 * Exchanges the code in the address for a session, and removes it from the address and from the history.
 *
 * @returns the reason why the code was refused; absent without a code, or when it was taken
 */
export async function signIn(): Promise<string | undefined> {
  // An address pasted over an open page changes its fragment alone.
  addEventListener("hashchange", () => codeOf(location.hash) && location.reload());
  const code = codeOf(location.hash);
  if (code === undefined) return undefined;
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/desktop/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const body = await response.json();
  if (!response.ok) return `${body.error}; ${body.hint}`;
  localStorage.setItem(GATEWAY_KEY, body.gateway_key);
  localStorage.setItem(KEY, body.key);
}

function codeOf(hash: string): string | undefined {
  return /^#code=(\w+)$/.exec(hash)?.[1];
}
