/** Credentials of requests to servers: named by the definition, or of a login. */
import { hostFetch } from "../../base/proxy/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import { OutboundRefusal } from "./refusal.ts";
import type { SecretFilter } from "./secret.ts";
import type { AllowedServer } from "./target.ts";

/**
 * Resolves a credential reference to its secret for one URL; `undefined` when the reference is unknown or not valid for
 * this host. `rejected` is true after the server answered 401, so that an expired token can be renewed.
 */
export type CredentialResolver = (ref: string, url: URL, rejected: boolean) => Promise<string | undefined>;

/** Token of a login. */
export interface LoginToken {
  ref: string;
  secret: string;
}

/** Logins at servers (docs/design/contracts/09-credentials.md §9, "Logins"). */
export interface ServerLogins {
  /**
   * Token for a request to a server, renewed when it ends soon.
   *
   * @param rejected the token that the server has just refused; it is renewed
   * @returns `undefined` when a person has to log in
   * @throws Error with a message that may be shown
   */
  token(definition: AggregatorDefinition, to: URL, rejected?: string): Promise<LoginToken | undefined>;
  /** keeps the scopes that a server asks for, until a person logs in again */
  want(definition: AggregatorDefinition, scope: string): Promise<void>;
  /** command by which a person logs in at a server, or the reason why no login is possible */
  advice(definition: AggregatorDefinition): string;
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

type Init = RequestInit & { headers: Record<string, string> };

/** Adds credentials to requests; every secret that it sends is known to the filter first. */
export class Credentials {
  readonly #options: { resolve?: CredentialResolver; logins?: ServerLogins };
  readonly #secrets: SecretFilter;

  constructor(options: { resolve?: CredentialResolver; logins?: ServerLogins }, secrets: SecretFilter) {
    this.#options = options;
    this.#secrets = secrets;
  }

  /** Sends a request, at most twice. @throws {OutboundRefusal} the credential is missing */
  async send({ definition }: AllowedServer, to: URL, init: Init): Promise<Response> {
    const { auth } = definition;
    // With the id of a client, the ref is that of the client's secret.
    const ref = auth?.client_id === undefined ? auth?.credential_ref : undefined;
    if (ref !== undefined) return await this.#sendWithRef(ref, to, init);
    const { logins } = this.#options;
    if (logins) return await this.#sendWithLogin(logins, definition, to, init);
    if (auth) throw new OutboundRefusal("logins are not possible here");
    return await send(to, init);
  }

  async #sendWithRef(ref: string, to: URL, init: Init): Promise<Response> {
    const secret = await this.#resolve(ref, to, false);
    const response = await send(to, init, secret);
    if (response.status !== 401) return response;
    const renewed = await this.#resolve(ref, to, true);
    if (renewed === secret) return response;
    await response.body?.cancel();
    return await send(to, init, renewed);
  }

  async #sendWithLogin(
    logins: ServerLogins,
    definition: AggregatorDefinition,
    to: URL,
    init: Init,
  ): Promise<Response> {
    const tokenFor = async (rejected?: string) => {
      const token = await logins.token(definition, to, rejected).catch((error) => {
        throw new OutboundRefusal((error as Error).message);
      });
      if (!token) return undefined;
      requireSafe(to);
      this.#secrets.add(token.ref, token.secret);
      return token.secret;
    };
    const secret = await tokenFor();
    let response = await send(to, init, secret);
    if (response.status === 401 && secret !== undefined) {
      const renewed = await tokenFor(secret);
      if (renewed !== undefined && renewed !== secret) {
        await response.body?.cancel();
        response = await send(to, init, renewed);
      }
    }
    if (response.status !== 401 && response.status !== 403) return response;
    const { challengeOf } = await import("../oauth/mod.ts");
    const { error, scope } = challengeOf(response);
    if (response.status === 403 && error !== "insufficient_scope") return response;
    await response.body?.cancel();
    if (response.status === 401) {
      throw new OutboundRefusal(`the server needs a login (HTTP 401): ${logins.advice(definition)}`);
    }
    // Scopes are kept in the clear and shown; a server could pass the token off as one.
    if (scope !== undefined && this.#secrets.text(scope) === scope) await logins.want(definition, scope);
    throw new OutboundRefusal(
      `the login does not reach for this (HTTP 403, insufficient_scope): ${logins.advice(definition)}`,
    );
  }

  async #resolve(ref: string, to: URL, rejected: boolean): Promise<string> {
    requireSafe(to);
    const secret = await this.#options.resolve?.(ref, to, rejected).catch(() => undefined);
    // An unresolved reference is refused, never sent (docs/design/contracts/09-credentials.md §9).
    if (!secret) throw new OutboundRefusal(`credential ${ref} is unknown or not valid for ${to.host}`);
    this.#secrets.add(ref, secret);
    return secret;
  }
}

function requireSafe({ protocol, hostname }: URL): void {
  if (protocol === "https:" || LOOPBACK.test(hostname)) return;
  throw new OutboundRefusal("credentials are not sent over plain http; use an https URL");
}

function send(to: URL, init: Init, secret?: string): Promise<Response> {
  if (secret !== undefined) init.headers.authorization = `Bearer ${secret}`;
  return hostFetch(to, init);
}
