/**
 * Accounts of an OpenID provider: authorization code with PKCE for browsers, JWT access tokens for programs.
 */
import * as oauth from "oauth4webapi";
import { SbxError } from "../../base/error/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { type Account, isLoopback, type ReaderFile } from "./config.ts";
import { Logins } from "./logins.ts";

/** Longest answer of the provider, in `ms`, and age at which its metadata is read again. */
const ANSWER_MS = timeLimit(20_000), METADATA_MS = 3_600_000;

/** Options of a request to the provider. */
interface RequestOptions {
  [oauth.customFetch]: never;
  [oauth.allowInsecureRequests]: boolean;
  signal: AbortSignal;
}

export class Accounts {
  readonly #config: ReaderFile["oidc"];
  readonly #client: oauth.Client;
  readonly #auth: oauth.ClientAuth;
  readonly #logins = new Logins();
  #server?: { at: number; metadata: Promise<oauth.AuthorizationServer> };

  /** @param secret of the client; absent: a public client */
  constructor(config: ReaderFile["oidc"], secret?: string) {
    this.#config = config;
    this.#client = { client_id: config.client_id };
    this.#auth = secret === undefined ? oauth.None() : oauth.ClientSecretBasic(secret);
  }

  /** Begins a login. @returns its id, for a cookie of the browser, and where the browser goes */
  async begin(): Promise<{ id: string; url: string }> {
    const server = await this.#metadata();
    const { client_id, scopes } = this.#config;
    const login = {
      state: oauth.generateRandomState(),
      nonce: oauth.generateRandomNonce(),
      verifier: oauth.generateRandomCodeVerifier(),
    };
    const url = new URL(server.authorization_endpoint!);
    const parameters = {
      client_id,
      redirect_uri: this.#redirect(),
      response_type: "code",
      scope: scopes.join(" "),
      state: login.state,
      nonce: login.nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(login.verifier),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return { id: await this.#logins.seal(login), url: url.href };
  }

  /**
   * Ends a login. Its code counts once at the provider.
   *
   * @param id of the cookie
   * @param search of the redirect
   * @throws {SbxError} `fleet.login.failed`
   */
  async finish(id: string, search: URLSearchParams): Promise<Account> {
    const login = await this.#logins.open(id);
    if (!login) throw failed("it was not begun in this browser, or too long ago");
    return await this.#try(async (server, options) => {
      const parameters = oauth.validateAuthResponse(server, this.#client, search, login.state);
      const response = await oauth.authorizationCodeGrantRequest(
        server,
        this.#client,
        this.#auth,
        parameters,
        this.#redirect(),
        login.verifier,
        options,
      );
      const tokens = await oauth.processAuthorizationCodeResponse(server, this.#client, response, {
        expectedNonce: login.nonce,
        requireIdToken: true,
      });
      await oauth.validateApplicationLevelSignature(server, response, options);
      const claims = oauth.getValidatedIdTokenClaims(tokens)!;
      if (claims[this.#config.groups_claim] !== undefined || !server.userinfo_endpoint) {
        return this.#account(claims);
      }
      // Most providers give groups there alone.
      const info = await oauth.userInfoRequest(server, this.#client, tokens.access_token, options);
      return this.#account({
        ...claims,
        ...await oauth.processUserInfoResponse(server, this.#client, claims.sub, info),
      });
    });
  }

  /** Account of a bearer token. @throws {SbxError} `auth.bad_token`: it is not one for this service */
  async bearer(request: Request): Promise<Account> {
    const { audience } = this.#config;
    try {
      if (audience === undefined) throw new Error("no audience");
      const server = await this.#metadata();
      return this.#account(await oauth.validateJwtAccessToken(server, request, audience, this.#options()));
    } catch (cause) {
      if (cause instanceof SbxError) throw cause;
      throw new SbxError("auth.bad_token", "the token is not one for this service", { cause });
    }
  }

  #account(claims: Record<string, unknown> & { sub: string }): Account {
    const groups = claims[this.#config.groups_claim];
    const name = claims.email ?? claims.preferred_username ?? claims.name;
    return {
      subject: claims.sub,
      ...(typeof name === "string" && { name: name.slice(0, 256) }),
      groups: (Array.isArray(groups) ? groups : [groups]).filter((each) => typeof each === "string"),
    };
  }

  #redirect(): string {
    return new URL("/callback", this.#config.public_url).href;
  }

  #options(): RequestOptions {
    return {
      [oauth.customFetch]: ((url: string, init: RequestInit) => hostFetch(new URL(url), init)) as never,
      [oauth.allowInsecureRequests]: isLoopback(new URL(this.#config.issuer)),
      signal: AbortSignal.timeout(ANSWER_MS),
    };
  }

  async #metadata(): Promise<oauth.AuthorizationServer> {
    if (!this.#server || Date.now() - this.#server.at > METADATA_MS) {
      this.#server = { at: Date.now(), metadata: this.#discover() };
    }
    const { metadata } = this.#server;
    return await metadata.catch((error) => {
      this.#server = undefined;
      throw error;
    });
  }

  async #discover(): Promise<oauth.AuthorizationServer> {
    const issuer = new URL(this.#config.issuer);
    try {
      const response = await oauth.discoveryRequest(issuer, this.#options());
      return await oauth.processDiscoveryResponse(issuer, response);
    } catch (cause) {
      throw new SbxError("fleet.unavailable", `the provider ${issuer.origin} of accounts does not answer`, {
        cause,
        hint: "check [oidc] issuer of reader.toml: it has /.well-known/openid-configuration",
      });
    }
  }

  async #try(
    work: (server: oauth.AuthorizationServer, options: RequestOptions) => Promise<Account>,
  ): Promise<Account> {
    const server = await this.#metadata();
    try {
      return await work(server, this.#options());
    } catch (cause) {
      throw failed("the provider's answer is not one to this login", cause);
    }
  }
}

function failed(problem: string, cause?: unknown): SbxError {
  return new SbxError("fleet.login.failed", `the login failed: ${problem}`, { cause, hint: "log in again" });
}
