/**
 * Logins of people at MCP servers, as one session uses them (docs/design/contracts/09-credentials.md §9,
 * "Logins").
 */
import { SbxError } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import type { LoginPlace, Logins, LoginView, OpenLogin } from "../credential/mod.ts";
import {
  type AggregatorDefinition,
  type LoginToken,
  RENEW_BEFORE_MS,
  type ServerLogins,
} from "../mcp/mod.ts";

export interface SessionLoginOptions {
  logins: Logins;
  profile: string;
  /** whether corp allows logins now */
  isAllowed(): boolean;
  /** gets the token of a login from the broker, which records its use; `undefined`: refused */
  use(ref: string, to: URL, login: LoginPlace): Promise<string | undefined>;
}

/** Tokens for the servers of a session, renewed on the host. */
export class SessionLogins implements ServerLogins {
  readonly #options: SessionLoginOptions;
  /** renewals under way, by server */
  readonly #renewals = new Map<string, Promise<void>>();

  constructor(options: SessionLoginOptions) {
    this.#options = options;
  }

  async token(definition: AggregatorDefinition, to: URL, rejected?: string): Promise<LoginToken | undefined> {
    const { logins, isAllowed, use } = this.#options;
    const place = this.#placeOf(definition);
    let login = isAllowed() ? logins.find(place) : undefined;
    if (!login) return undefined;
    if (rejected !== undefined || endsSoon(login)) {
      await this.#renew(place, rejected);
      login = logins.find(place);
    }
    const secret = login && await use(login.ref, to, place);
    return login && secret !== undefined ? { ref: login.ref, secret } : undefined;
  }

  async want(definition: AggregatorDefinition, scope: string): Promise<void> {
    const { logins } = this.#options;
    const place = this.#placeOf(definition);
    const { cleanScope } = await import("../mcp/oauth/mod.ts");
    await logins.exclusively(place, async () => {
      const login = await logins.open(place);
      const wanted = cleanScope(login?.terms.wanted_scope, scope);
      if (!login || wanted === undefined || wanted === login.terms.wanted_scope) return;
      await logins.save(place, { ...login, terms: { ...login.terms, wanted_scope: wanted } });
    });
  }

  advice({ name }: AggregatorDefinition): string {
    if (!this.#options.isAllowed()) return "corp does not allow logins at MCP servers";
    return `run sbx mcp login ${name} -p ${this.#options.profile}`;
  }

  #placeOf({ name, url }: AggregatorDefinition): LoginPlace {
    return { profile: this.#options.profile, server: name, url };
  }

  /** Renews a login once for all requests that wait for it. */
  #renew(place: LoginPlace, rejected: string | undefined): Promise<void> {
    const running = this.#renewals.get(place.server);
    if (running) return running;
    const renewal = this.#renewNow(place, rejected).finally(() => this.#renewals.delete(place.server));
    this.#renewals.set(place.server, renewal);
    return renewal;
  }

  async #renewNow(place: LoginPlace, rejected: string | undefined): Promise<void> {
    const { logins } = this.#options;
    await logins.exclusively(place, async () => {
      const login = await logins.open(place);
      // Another process was faster, or there is nothing to renew it with.
      const isDone = rejected === undefined ? !login || !endsSoon(login) : login?.access !== rejected;
      if (!login || isDone || login.refresh === undefined) return;
      try {
        await logins.save(place, await renewed(logins, place, login));
      } catch (error) {
        // A token that still holds is used until its end.
        if (rejected !== undefined || (login.terms.expires_at ?? Infinity) <= Date.now()) throw error;
        log.warn(`the login at MCP server "${place.server}" was not renewed:`, (error as Error).message);
      }
    });
  }
}

/** The login with new tokens; without the one for renewals when the server has ended it. */
async function renewed(logins: Logins, { url }: LoginPlace, login: OpenLogin): Promise<OpenLogin> {
  const { renewLogin } = await import("../mcp/oauth/mod.ts");
  const { client_ref } = login.terms;
  const secret = client_ref === undefined
    ? login.client
    : await logins.clientSecret(client_ref, new URL(login.terms.token_endpoint));
  if (client_ref !== undefined && secret === undefined) {
    throw new SbxError(
      "mcp.login.failed",
      `the client's secret ${client_ref} is not in the store for this host`,
    );
  }
  return await renewLogin(new URL(url), login, secret) ?? { ...login, refresh: undefined };
}

function endsSoon({ terms: { expires_at } }: Pick<LoginView, "terms">): boolean {
  return expires_at !== undefined && expires_at - RENEW_BEFORE_MS < Date.now();
}
