/**
 * OAuth of a provider's own client on the host: authorization code with PKCE (RFC 6749, 7636, 8252), device
 * code (RFC 8628), renewal. Loaded with the first login or renewal.
 */
import * as oauth from "oauth4webapi";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { RedirectListener } from "../../base/loopback/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import type { OauthFacts } from "../provider.ts";
import { type Answer, type LoginTokens, tokensOf } from "./answer.ts";
import { knownCode, loginFailed, loginFetch } from "./fetch.ts";

/** Time in `ms` for a person to finish a login. */
export const LOGIN_WAIT_MS = 600_000;
/** Longest code that a person may paste, in characters. */
const PASTED_MAX = 4096;
/** Most `s` added to the interval of a device code when the server asks for it (RFC 8628, 3.5). */
const SLOWER_S = 5;

/** How the code of a login comes to this machine. */
export type LoginWay = "browser" | "paste" | "device";

export interface LoginOptions {
  /** default: the first that the provider has */
  way?: LoginWay;
  /** `ms` for the person; default {@linkcode LOGIN_WAIT_MS} */
  waitMs?: number;
}

/** A login that waits for a person. */
export interface WaitingLogin {
  way: LoginWay;
  /** to be opened in a browser */
  url: string;
  /** to be typed there */
  user_code?: string;
  /** rejects when the login fails or is abandoned */
  finished: Promise<LoginTokens>;
  /**
   * takes the code that the provider's page shows.
   * @throws {SbxError} `login.failed`: a code of another login, or none
   */
  paste(text: string): void;
  cancel(): void;
}

/** The authorization server and the client of a login. */
class Party {
  readonly server: oauth.AuthorizationServer;
  readonly client: oauth.Client;
  readonly auth: oauth.ClientAuth;
  readonly facts: OauthFacts;

  constructor(facts: OauthFacts) {
    this.facts = facts;
    this.server = {
      issuer: facts.issuer ?? new URL(facts.token).origin,
      authorization_endpoint: facts.authorize,
      token_endpoint: facts.token,
      device_authorization_endpoint: facts.device,
    };
    this.client = { client_id: facts.client_id };
    this.auth = facts.published_secret === undefined
      ? oauth.None()
      : oauth.ClientSecretPost(facts.published_secret);
  }

  /** Options of a request. */
  options(signal?: AbortSignal) {
    return {
      [oauth.customFetch]: loginFetch({ json: this.facts.body === "json" }) as never,
      ...(signal && { signal }),
    };
  }

  /** Tokens of a checked answer. */
  async tokens(answer: oauth.TokenEndpointResponse): Promise<LoginTokens> {
    if (answer.token_type !== "bearer") {
      throw loginFailed(`${this.facts.title} gave a token that is not a bearer token`);
    }
    const claims = oauth.getValidatedIdTokenClaims(answer) as Answer | undefined;
    const { account_url } = this.facts;
    const account = account_url === undefined ? undefined : await getJson(account_url, answer.access_token);
    const tokens = tokensOf(this.facts, answer, { claims, account });
    return this.facts.exchange === undefined ? tokens : await exchanged(this.facts, tokens);
  }
}

/**
 * Begins a login.
 *
 * @throws {SbxError} `login.unsupported`: the provider has no such way; `login.failed`
 */
export async function beginLogin(facts: OauthFacts, options: LoginOptions = {}): Promise<WaitingLogin> {
  const way = options.way ?? (facts.authorize !== undefined ? "browser" : "device");
  requireWay(facts, way);
  const { waitMs = LOGIN_WAIT_MS } = options;
  return way === "device" ? await beginDevice(facts, waitMs) : await beginCode(facts, way, waitMs);
}

/** Ways in which a person can log in at a provider. */
export function waysOf({ device, paste, redirect, authorize }: OauthFacts): LoginWay[] {
  return [
    ...(redirect !== undefined && authorize !== undefined ? ["browser" as const] : []),
    ...(paste !== undefined ? ["paste" as const] : []),
    ...(device !== undefined ? ["device" as const] : []),
  ];
}

function requireWay(facts: OauthFacts, way: LoginWay): void {
  if (waysOf(facts).includes(way)) return;
  const reason = way === "device" ? facts.no_device ?? "it has no device codes" : {
    paste: "it shows no code that could be pasted",
    browser: "it has device codes only",
  }[way];
  throw new SbxError("login.unsupported", `sbx login ${facts.login} cannot be done this way: ${reason}`, {
    hint: `run sbx login ${facts.login} without --device and --no-browser`,
  });
}

async function beginCode(facts: OauthFacts, way: "browser" | "paste", ms: number): Promise<WaitingLogin> {
  const party = new Party(facts);
  const [state, verifier] = [oauth.generateRandomState(), oauth.generateRandomCodeVerifier()];
  const arrival = way === "browser" ? listenFor(facts, state, ms) : new PastedCode(facts, state, ms);
  try {
    const challenge = await oauth.calculatePKCECodeChallenge(verifier);
    const url = new URL(facts.authorize!);
    const query = {
      ...facts.params,
      response_type: "code",
      client_id: facts.client_id,
      redirect_uri: arrival.url,
      scope: facts.scopes.join(" "),
      code_challenge: challenge,
      code_challenge_method: "S256",
      state,
    };
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const finished = arrival.code.then((code) =>
      attempt("the exchange of the code", async () => {
        const found = oauth.validateAuthResponse(
          party.server,
          party.client,
          new URLSearchParams({ code, state }),
          state,
        );
        const response = await oauth.authorizationCodeGrantRequest(
          party.server,
          party.client,
          party.auth,
          found,
          arrival.url,
          verifier,
          // Anthropic's endpoint wants the state again.
          { ...party.options(), ...(facts.body === "json" && { additionalParameters: { state } }) },
        );
        return await party.tokens(
          await oauth.processAuthorizationCodeResponse(party.server, party.client, response),
        );
      })
    );
    finished.catch(ignore("the caller awaits it"));
    return {
      way,
      url: url.href,
      finished,
      paste: (text) => {
        if (!(arrival instanceof PastedCode)) throw loginFailed("this login waits for the browser");
        arrival.take(text);
      },
      cancel: () => arrival.close(),
    };
  } catch (error) {
    arrival.close();
    throw error;
  }
}

/** Listens for the redirect of a login. */
function listenFor({ login, redirect, issuer }: OauthFacts, state: string, ms: number): RedirectListener {
  const { host, port = 0, path } = redirect!;
  const listener = new RedirectListener({
    host,
    port,
    path,
    ms,
    portHint: `close the program that uses it, and run sbx login ${login} again`,
    fail: loginFailed,
    timedOut: (problem) => timedOut(login, problem),
    codeOf: knownCode,
  });
  listener.expected = { state, namesIssuer: false, ...(issuer !== undefined && { issuer }) };
  return listener;
}

function timedOut(login: string, problem: string): SbxError {
  return new SbxError("login.timeout", problem, { hint: `run sbx login ${login} again` });
}

/** A code that a person reads on the provider's page and pastes. */
class PastedCode {
  readonly url: string;
  readonly code: Promise<string>;
  readonly #state: string;
  readonly #result = Promise.withResolvers<string>();

  constructor({ paste, login }: OauthFacts, state: string, ms: number) {
    this.url = paste!;
    this.#state = state;
    const timer = setTimeout(
      () =>
        this.#result.reject(
          timedOut(login, `the login was not finished within ${Math.round(ms / 1000)} s`),
        ),
      ms,
    );
    this.code = this.#result.promise.finally(() => clearTimeout(timer));
    this.code.catch(ignore("awaited by the login"));
  }

  /** Takes `code`, `code#state`, or the address of the page. */
  take(text: string): void {
    const word = text.trim();
    if (word.length > PASTED_MAX) throw loginFailed("that is not a code: it is too long");
    const query = URL.parse(word)?.searchParams;
    const [code, state] = query ? [query.get("code") ?? "", query.get("state") ?? ""] : word.split("#");
    if (!/^[\x21-\x7e]{4,}$/.test(code)) throw loginFailed("that is not a code", undefined, HINT_CODE);
    // Google shows the code alone; the verifier of PKCE binds that to this login.
    if (state !== undefined && state !== this.#state) {
      throw loginFailed("that code belongs to another login", undefined, HINT_CODE);
    }
    this.#result.resolve(code);
  }

  close(): void {
    this.#result.reject(loginFailed("the login was cancelled"));
  }
}

const HINT_CODE = "paste the whole code that the page shows at the end of this login";

async function beginDevice(facts: OauthFacts, waitMs: number): Promise<WaitingLogin> {
  const party = new Party(facts);
  const abort = new AbortController();
  const given = await attempt("the request for a device code", async () => {
    const { server, client, auth } = party;
    const scope = facts.scopes.join(" ");
    const response = await oauth.deviceAuthorizationRequest(server, client, auth, { scope }, party.options());
    return await oauth.processDeviceAuthorizationResponse(server, client, response);
  });
  const url = URL.parse(given.verification_uri_complete ?? given.verification_uri);
  if (url?.protocol !== "https:") throw loginFailed(`${facts.title} names no address for its device code`);
  const ms = Math.min(waitMs, given.expires_in * 1000);
  const timer = setTimeout(
    () => abort.abort(timedOut(facts.login, `the login was not finished within ${Math.round(ms / 1000)} s`)),
    ms,
  );
  const finished = pollDevice(party, given.device_code, given.interval ?? 5, abort.signal)
    .finally(() => clearTimeout(timer));
  finished.catch(ignore("the caller awaits it"));
  return {
    way: "device",
    url: url.href,
    user_code: given.user_code,
    finished,
    paste: () => {
      throw loginFailed("this login waits for its code to be typed on the provider's page");
    },
    cancel: () => abort.abort(loginFailed("the login was cancelled")),
  };
}

/** Asks for the token until the person has decided. */
async function pollDevice(
  party: Party,
  code: string,
  interval: number,
  signal: AbortSignal,
): Promise<LoginTokens> {
  const { server, client, auth } = party;
  for (let seconds = Math.max(1, interval);;) {
    await delay(seconds * 1000, signal);
    const answer = await attempt("the device login", async () => {
      const response = await oauth.deviceCodeGrantRequest(server, client, auth, code, party.options(signal));
      return await oauth.processDeviceCodeResponse(server, client, response);
    }, (error) => {
      if (error === "slow_down") seconds += SLOWER_S;
      return error === "slow_down" || error === "authorization_pending";
    }).catch((error) => {
      throw signal.aborted ? signal.reason : error;
    });
    if (answer) return await attempt("the device login", () => party.tokens(answer));
  }
}

function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}

/**
 * Renews a login.
 *
 * @returns `undefined` when the provider does not renew it any more: a person has to log in again
 * @throws {SbxError} `login.failed`: it cannot be renewed now
 */
export async function renewLogin(facts: OauthFacts, refresh: string): Promise<LoginTokens | undefined> {
  let isOver = false;
  const party = new Party(facts);
  const { server, client, auth } = party;
  const renewed = async () => {
    if (facts.exchange !== undefined) return await exchanged(facts, { access: refresh, facts: {} });
    const response = await oauth.refreshTokenGrantRequest(server, client, auth, refresh, party.options());
    return await party.tokens(await oauth.processRefreshTokenResponse(server, client, response));
  };
  const tokens = await attempt("the renewal of the login", renewed, (error) => {
    isOver = error === "invalid_grant" || error === "unauthorized_client";
    return isOver;
  });
  return isOver ? undefined : tokens;
}

/**
 * Gets the short-lived token for requests with the token of the login, which stays the one that renews it.
 */
async function exchanged(facts: OauthFacts, login: LoginTokens): Promise<LoginTokens> {
  const answer = await getJson(facts.exchange!, login.access, "token");
  const { token, expires_at } = answer;
  const { access, expires_at: end } = tokensOf({ ...facts, keep: {} }, {
    access_token: token,
    expires_in: typeof expires_at === "number" ? expires_at - Date.now() / 1000 : undefined,
  });
  return { ...login, access, refresh: login.access, ...(end !== undefined && { expires_at: end }) };
}

/**
 * An object of JSON that a token opens.
 * @throws {SbxError} `login.failed`; {@linkcode TokenOver}: not with this token
 */
async function getJson(url: string, token: string, scheme = "Bearer"): Promise<Answer> {
  const response = await loginFetch()(url, { headers: { authorization: `${scheme} ${token}` } });
  const { host } = new URL(url);
  if (response.status === 401) throw new TokenOver();
  if (!response.ok) throw loginFailed(`${host} answered the request for the account with ${response.status}`);
  try {
    return objectOf(await response.json());
  } catch {
    throw loginFailed(`the answer of ${host} is not JSON`);
  }
}

/** A token that a provider takes no more. */
class TokenOver extends Error {}

/**
 * Runs a step of a login.
 *
 * @param expects true for a code of OAuth that is no failure; the step has no result then
 * @throws {SbxError} `login.failed`, without any text of the server
 */
async function attempt<T>(what: string, run: () => Promise<T>): Promise<T>;
async function attempt<T>(
  what: string,
  run: () => Promise<T>,
  expects: (code: string) => boolean,
): Promise<T | undefined>;
async function attempt<T>(
  what: string,
  run: () => Promise<T>,
  expects: (code: string) => boolean = () => false,
): Promise<T | undefined> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof SbxError) throw error;
    const code = error instanceof TokenOver
      ? "invalid_grant"
      : error instanceof oauth.ResponseBodyError
      ? error.error
      : undefined;
    if (code !== undefined && expects(code)) return undefined;
    const known = knownCode(code);
    // The cause is not kept: its text may hold a token.
    throw loginFailed(known ? `${what} was refused: ${known}` : `${what} failed: the answer is not OAuth`);
  }
}
