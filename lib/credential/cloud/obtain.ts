/**
 * Tokens of a cloud for an identity whose key stays on the host (docs/design/contracts/09-credentials.md §9,
 * "Clouds"): JSON Web Tokens signed with it (RFC 7523), client secrets, and refresh tokens.
 */
import { SbxError } from "../../base/error/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import { isSecret } from "../form.ts";
import type { Obtained } from "../entry.ts";
import { knownCode, loginFetch } from "../subscription/fetch.ts";
import { GOOGLE_SCOPE, GOOGLE_TOKEN_URL, unpack } from "./key_file.ts";
import { type AzureTerms, type GcpTerms, RESOURCES } from "./terms.ts";

/**
 * Lifetime of a signed identity assertion, in `s`: the longest that Google takes, and the usual one at Azure.
 */
const ASSERTION_S = { gcp: 3600, azure: 600 };
/** Shortest and longest life of a token that is believed, in `s`. */
const LIFE_S = { least: 30, most: 2 * 86_400 };
/** Life of a token of an impersonated account, in `s`. */
const IMPERSONATED_S = 3600;
const GOOGLE_IAM = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/";
const AZURE_LOGIN = "https://login.microsoftonline.com/";

type Fetch = ReturnType<typeof loginFetch>;

/**
 * Obtains a token.
 *
 * @param key the secret of the store
 * @param fetch follows no redirects, and reads answers whole
 * @throws {SbxError} `credential.program`: there is no token, and why; nothing
 * of an answer but a code of OAuth
 */
export async function obtainCloudToken(
  terms: GcpTerms | AzureTerms,
  key: string,
  fetch: Fetch = loginFetch(),
): Promise<Obtained> {
  try {
    return terms.kind === "gcp" ? await googleToken(terms, key, fetch) : await azureToken(terms, key, fetch);
  } catch (cause) {
    if (cause instanceof SbxError && cause.code === "login.failed") throw fail(cause.message, cause);
    throw cause;
  }
}

async function googleToken(terms: GcpTerms, key: string, fetch: Fetch): Promise<Obtained> {
  const parts = unpack(key);
  if (terms.from === "service_account") {
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      iss: terms.email,
      scope: terms.scopes.join(" "),
      aud: GOOGLE_TOKEN_URL,
      iat: now,
      exp: now + ASSERTION_S.gcp,
    };
    const assertion = await signed({ alg: "RS256", typ: "JWT", kid: parts.kid }, claims, textOf(parts.key));
    const form = { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion };
    return await tokenAt(fetch, GOOGLE_TOKEN_URL, form);
  }
  const [client_id, client_secret, refresh_token] = [
    parts.client_id,
    parts.client_secret,
    parts.refresh_token,
  ].map(textOf);
  const form = { grant_type: "refresh_token", client_id, client_secret, refresh_token };
  if (terms.from === "authorized_user") return await tokenAt(fetch, GOOGLE_TOKEN_URL, form);
  const own = await tokenAt(fetch, GOOGLE_TOKEN_URL, { ...form, scope: GOOGLE_SCOPE });
  return await impersonate(terms, own, fetch);
}

/** A token of the account that a person may act as. */
async function impersonate(
  { email = "", scopes }: GcpTerms,
  { secret, obtained_at }: Obtained,
  fetch: Fetch,
): Promise<Obtained> {
  const url = `${GOOGLE_IAM}${encodeURIComponent(email)}:generateAccessToken`;
  const response = await fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ scope: scopes, lifetime: `${IMPERSONATED_S}s` }),
  });
  const { accessToken, expireTime } = await answerOf(response, url);
  return checked(accessToken, (Date.parse(String(expireTime)) - obtained_at) / 1000, obtained_at, url);
}

async function azureToken(
  { tenant, client_id, resource }: AzureTerms,
  key: string,
  fetch: Fetch,
): Promise<Obtained> {
  const url = `${AZURE_LOGIN}${encodeURIComponent(tenant)}/oauth2/v2.0/token`;
  const form = {
    grant_type: "client_credentials",
    client_id,
    scope: `${RESOURCES[resource].audience}/.default`,
  };
  const parts = unpack(key);
  if (typeof parts.client_secret === "string") {
    return await tokenAt(fetch, url, { ...form, client_secret: parts.client_secret });
  }
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    aud: url,
    iss: client_id,
    sub: client_id,
    jti: crypto.randomUUID(),
    nbf: now,
    exp: now + ASSERTION_S.azure,
  };
  const client_assertion = await signed(
    { alg: "PS256", typ: "JWT", "x5t#S256": parts.x5t },
    claims,
    textOf(parts.key),
  );
  return await tokenAt(fetch, url, {
    ...form,
    client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    client_assertion,
  });
}

async function tokenAt(fetch: Fetch, url: string, form: Record<string, string>): Promise<Obtained> {
  const obtained_at = Date.now();
  const response = await fetch(url, { method: "POST", body: new URLSearchParams(form) });
  const { access_token, token_type, expires_in } = await answerOf(response, url);
  if (String(token_type).toLowerCase() !== "bearer") {
    throw fail(`${new URL(url).host} gave a token of another type than Bearer`);
  }
  return checked(access_token, typeof expires_in === "number" ? expires_in : NaN, obtained_at, url);
}

async function answerOf(response: Response, url: string): Promise<Record<string, unknown>> {
  let answer: Record<string, unknown> = {};
  try {
    answer = objectOf(await response.json());
  } catch {
    // The status says enough.
  }
  if (response.status === 200) return answer;
  const code = knownCode(answer.error);
  throw fail(
    `${new URL(url).host} gave no token: ${code ?? `it answered with status ${response.status}`}`,
  );
}

/** @throws {SbxError} no token, or one whose life cannot be believed */
function checked(token: unknown, life_s: number, obtained_at: number, url: string): Obtained {
  const { host } = new URL(url);
  if (typeof token !== "string" || !isSecret(token)) throw fail(`${host} gave no usable token`);
  if (!(life_s >= LIFE_S.least && life_s <= LIFE_S.most)) {
    throw fail(`${host} gave a token with an impossible end`);
  }
  return { secret: token, obtained_at, expires_at: obtained_at + Math.floor(life_s * 1000) };
}

/** JSON Web Token of a key in PKCS #8. @throws {SbxError} the key does not sign */
async function signed(
  header: { alg: "RS256" | "PS256" } & Record<string, unknown>,
  claims: object,
  key: string,
): Promise<string> {
  const encode = (value: object) => base64url(new TextEncoder().encode(JSON.stringify(value)));
  const text = `${encode(header)}.${encode(claims)}`;
  const name = header.alg === "RS256" ? "RSASSA-PKCS1-v1_5" : "RSA-PSS";
  try {
    const der = Uint8Array.fromBase64(key);
    const signer = await crypto.subtle.importKey("pkcs8", der, { name, hash: "SHA-256" }, false, ["sign"]);
    const algorithm = { name, saltLength: 32 };
    const signature = await crypto.subtle.sign(algorithm, signer, new TextEncoder().encode(text));
    return `${text}.${base64url(new Uint8Array(signature))}`;
  } catch {
    throw fail("the key of the cloud is not an RSA key in PKCS #8");
  }
}

function base64url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function fail(problem: string, cause?: unknown): SbxError {
  return new SbxError("credential.program", problem, {
    cause,
    hint: "check the identity in the cloud's console, and add its key again",
  });
}
