/** Sign-in of this browser, and proof of the gateway (docs/design/contracts/02-http.md §2, "Desktop"). */

/**
 * Places of the session's key and of the gateway's public key in the storage of this origin.
 * Its host is of one run of the gateway: a program that has the port afterwards may read them,
 * and no other gateway takes them.
 */
const KEY = "sbx-key", GATEWAY_KEY = "sbx-gateway-key";

/** The key that goes with the cookie; absent in a browser that is not signed in. */
export function sessionKey(): string | null {
  return localStorage.getItem(KEY);
}

/** The public key of the gateway that this browser signed in to. */
function gatewayKey(): string | null {
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

/** First line of a signed text; the gateway's is in lib/client/gateway/desktop/page.ts. */
const PROOF = "sbx-desktop-proof-v1";
/** `bytes` of a challenge. */
const CHALLENGE_BYTES = 32;

/** Another program, or another run of sbx, answers at this page's address. */
export class StrangerError extends Error {}

let proof: Promise<void> | undefined;

/**
 * Proves the gateway, once for all requests until {@linkcode forgetProof}. Nothing secret may be sent before
 * it resolves, and no code be loaded.
 *
 * @throws {StrangerError}
 * @throws {TypeError} nothing answers
 */
export function proveGateway(): Promise<void> {
  if (proof === undefined) {
    const tried = challengeGateway();
    tried.catch(() => proof === tried && forgetProof());
    proof = tried;
  }
  return proof;
}

/** Called when a connection ends: the next one may lead to another program. */
export function forgetProof(): void {
  proof = undefined;
}

async function challengeGateway(): Promise<void> {
  const spki = gatewayKey();
  if (spki === null) throw new StrangerError("this browser is not signed in");
  const challenge = base64(crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES)));
  // Without the cookie, which a browser would send to whatever listens.
  const response = await fetch(`/desktop/proof?challenge=${encodeURIComponent(challenge)}`, {
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
  if (!await isSigned(spki, challenge, response)) {
    throw new StrangerError("the program at this address is not the sbx that this browser signed in to");
  }
}

async function isSigned(spki: string, challenge: string, response: Response): Promise<boolean> {
  try {
    const { signature } = await response.json();
    const curve = { name: "ECDSA", namedCurve: "P-256" };
    const key = await crypto.subtle.importKey("spki", bytes(spki), curve, false, ["verify"]);
    const text = new TextEncoder().encode(`${PROOF}\n${location.host}\n${challenge}`);
    return await crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, bytes(signature), text);
  } catch {
    return false;
  }
}

function base64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
