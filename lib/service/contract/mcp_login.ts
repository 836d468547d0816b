/** Logins of people at the MCP servers of profiles (docs/design/contracts/08-mcp.md §8, "Logins"). */
import type { McpLogin, McpLoginRequest, McpLoginState } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { CredentialStore, type LoginPlace, Logins, storePath } from "../../credential/mod.ts";
import type { AggregatorDefinition } from "../../mcp/mod.ts";
import type { LoginRequest, WaitingLogin } from "../../mcp/oauth/mod.ts";
import { loadProfile } from "../../config/profile/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { corpLayer, LOGIN_SETTING } from "../../home/mod.ts";

/** Longest time in `ms` for which a request waits for the end of a login. */
const POLL_MS = 20_000;

export interface McpLoginSources {
  home: Home;
  corp: CorpStore;
  settings: SettingsStore;
  /** connects a server again in the running VMs of the profile */
  reconnect(profile: string, server: string): Promise<unknown>;
}

/** A login that waits for a person, or how it ended. */
interface Attempt {
  ended: Promise<void>;
  cancel(): void;
  isOver: boolean;
  error?: unknown;
}

type Auth = AggregatorDefinition["auth"];

export class McpLogins {
  readonly #sources: McpLoginSources;
  readonly #logins: Logins;
  readonly #attempts = new Map<string, Attempt>();

  constructor(sources: McpLoginSources) {
    this.#sources = sources;
    this.#logins = new Logins(new CredentialStore(storePath(sources.home)));
  }

  /**
   * Begins a login in place of the one that waits.
   *
   * @throws {SbxError} `mcp.login.forbidden`, `mcp.login.failed`, `mcp.login.limit`, `mcp.server.not_found`
   */
  async begin(profile: string, server: string, { scope, port }: McpLoginRequest): Promise<McpLogin> {
    const { place, auth, isAllowed } = await this.#find(profile, server);
    requireLoginAllowed(server, auth, isAllowed);
    this.#attempts.get(keyOf(place))?.cancel();
    const { beginLogin, cleanScope, LOGINS_MAX } = await import("../../mcp/oauth/mod.ts");
    this.#requireRoom(LOGINS_MAX);
    const before = this.#logins.find(place)?.terms;
    const waiting = await beginLogin({
      url: new URL(place.url),
      scope: cleanScope(scope, before?.wanted_scope && cleanScope(before.scope, before.wanted_scope)),
      port,
      client: this.#clientOf(auth),
    });
    this.#follow(place, waiting);
    return { url: waiting.url, issuer: waiting.issuer, ...(waiting.scope && { scope: waiting.scope }) };
  }

  /** The login at a server. @throws {SbxError} the reason why the last attempt failed, once */
  async state(profile: string, server: string): Promise<McpLoginState> {
    const { place } = await this.#find(profile, server);
    const key = keyOf(place);
    const attempt = this.#attempts.get(key);
    if (attempt) {
      await Promise.race([attempt.ended, backgroundDelay(POLL_MS)]);
      if (!attempt.isOver) return { state: "waiting" };
      if (this.#attempts.get(key) === attempt) this.#attempts.delete(key);
      if (attempt.error !== undefined) throw attempt.error;
    }
    const login = this.#logins.find(place);
    if (!login) return { state: "logged_out" };
    const { scope, expires_at } = login.terms;
    return {
      state: "logged_in",
      ...(scope && { scope }),
      ...(expires_at !== undefined && { expires_at: new Date(expires_at).toISOString() }),
      renews: login.isRenewable,
    };
  }

  /** Forgets a login. @throws {SbxError} `mcp.login.not_found` */
  async remove(profile: string, server: string): Promise<McpLoginState> {
    const { place } = await this.#find(profile, server);
    this.#attempts.get(keyOf(place))?.cancel();
    const isRemoved = await this.#logins.exclusively(place, () => this.#logins.remove(place));
    if (!isRemoved) {
      throw new SbxError(
        "mcp.login.not_found",
        `nobody is logged in at ${server} with profile "${profile}"`,
        {
          hint: `log in with sbx mcp login ${server} -p ${profile}`,
        },
      );
    }
    await this.#reconnect(place);
    return { state: "logged_out" };
  }

  /** @throws {SbxError} `mcp.login.limit` */
  #requireRoom(most: number): void {
    if (this.#attempts.values().filter(({ isOver }) => !isOver).toArray().length < most) return;
    throw new SbxError("mcp.login.limit", `${most} logins wait already`, {
      hint: "finish one of them, or wait until they end",
    });
  }

  /** The client that a definition names, with its secret from the store. */
  #clientOf(auth: Auth): LoginRequest["client"] {
    if (auth?.client_id === undefined) return undefined;
    const { client_id: id, credential_ref: ref } = auth;
    return { id, ...(ref && { ref, secret: (endpoint: URL) => this.#logins.clientSecret(ref, endpoint) }) };
  }

  /** Saves the login when its person has finished it, and connects the server with it. */
  #follow(place: LoginPlace, { finished, cancel }: WaitingLogin): void {
    const attempt: Attempt = { ended: Promise.resolve(), cancel, isOver: false };
    this.#attempts.set(keyOf(place), attempt);
    attempt.ended = finished.then(async (login) => {
      await this.#logins.exclusively(place, () => this.#logins.save(place, login));
      // A client that hears of the login may call a tool at once.
      await this.#reconnect(place);
    }).catch((error) => {
      attempt.error = error;
    }).finally(() => attempt.isOver = true);
  }

  async #reconnect({ profile, server }: LoginPlace): Promise<void> {
    await this.#sources.reconnect(profile, server).catch((error) =>
      log.warn(`reconnecting MCP server "${server}":`, (error as Error).message)
    );
  }

  /** @throws {SbxError} `mcp.server.not_found`: no such server, or one that is reached without HTTP or switched off */
  async #find(profile: string, server: string) {
    const { home, corp, settings } = this.#sources;
    const { definitionsOf } = await import("../../mcp/mod.ts");
    const [{ mcp }, layer] = await Promise.all([loadProfile(home, profile), corpLayer(corp)]);
    const definition = definitionsOf(mcp, layer.mcp).find(({ name }) => name === server);
    if (!definition?.url || !definition.enabled) {
      const problem = definition ? "is switched off or not reached by HTTP" : "is not defined";
      throw new SbxError(
        "mcp.server.not_found",
        `MCP server "${server}" of profile "${profile}" ${problem}`,
        {
          hint: `sbx mcp servers -p ${profile} lists its servers`,
        },
      );
    }
    const { auth, url } = definition;
    const place: LoginPlace = { profile, server, url };
    return { place, auth, isAllowed: layer.logins !== false && settings.inForce(LOGIN_SETTING) === true };
  }
}

function keyOf({ profile, server }: LoginPlace): string {
  return JSON.stringify([profile, server]);
}

/** @throws {SbxError} `mcp.login.forbidden`, `mcp.login.failed` */
function requireLoginAllowed(server: string, auth: Auth, isAllowed: boolean): void {
  if (!isAllowed) {
    throw new SbxError("mcp.login.forbidden", "logins at MCP servers are switched off", {
      hint: `sbx settings explain ${LOGIN_SETTING} says by whom`,
    });
  }
  if (auth?.credential_ref !== undefined && auth.client_id === undefined) {
    throw new SbxError("mcp.login.failed", `the definition of ${server} names a credential already`, {
      hint: "remove auth.credential_ref from the definition, and log in again",
    });
  }
}
