/**
 * Sign-in of this browser at the gateway, and the proof that later requests reach the same gateway
 * (docs/design/contracts/02-http.md §2, "Desktop").
 */

/**
 * The sign-in's key and the gateway's public key in this origin's storage. Each run of the gateway has a host
 * name of its own. A program that gets its port afterwards may read both, but no other gateway accepts them.
 */
const KEY = "sbx-key", GATEWAY_KEY = "sbx-gateway-key";

/** The key that requests carry beside the cookie; null: this browser is not signed in. */
export function sessionKey(): string | null {
  return localStorage.getItem(KEY);
}

/** Signs this browser out. */
export function forgetSession(): void {
  localStorage.removeItem(KEY);
  localStorage.removeItem(GATEWAY_KEY);
}

/**
 * Signs in with the one-time code in the address, and removes the code from address and history.
 *
 * @returns the gateway's reason for refusing it; absent if it was accepted, or the address has none
 */
export async function signIn(): Promise<string | undefined> {
  // A new address pasted into an open page changes the fragment only, which loads nothing.
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

/** First line of the text that the gateway signs; lib/client/gateway/desktop/page.ts has the same. */
const PROOF = "sbx-desktop-proof-v1";
/** `bytes` of a challenge. */
const CHALLENGE_BYTES = 32;

/** At this page's address is a program other than the gateway that this browser signed in to. */
export class StrangerError extends Error {}

let proof: Promise<void> | undefined;

/**
 * Checks that the gateway is the one of the sign-in; once, for all requests until {@linkcode forgetProof}.
 * The page may send no secret and load no code before this resolves.
 *
 * @throws {StrangerError} it is another program
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

/** To be called when a connection ends: the next one may reach another program. */
export function forgetProof(): void {
  proof = undefined;
}

async function challengeGateway(): Promise<void> {
  const spki = localStorage.getItem(GATEWAY_KEY);
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

// Browsers have Uint8Array.toBase64 since 2025 only.
function base64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
