/**
 * Logins of the host at MCP servers (docs/design/contracts/09-credentials.md §9, "Logins"), over the store;
 * who uses a token asks the broker.
 */
import { dirname } from "node:path";
import { lockWithin } from "../base/home/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import {
  isSamePlace,
  type LoginPart,
  type LoginPlace,
  type LoginTerms,
  type NewLoginSecret,
} from "./entry.ts";
import type { CredentialStore } from "./store.ts";

/**
 * `ms` to wait for another process that renews the same login; longer than a request to its token endpoint.
 */
const RENEWAL_WAIT_MS = 45_000;

/** A login without its secrets. */
export interface LoginView {
  /** of the access token */
  ref: string;
  terms: LoginTerms;
  /** whether it can be renewed without a person */
  isRenewable: boolean;
}

/** A login with its secrets. */
export interface OpenLogin {
  terms: LoginTerms;
  access: string;
  refresh?: string;
  client?: string;
}

export class Logins {
  readonly #store: CredentialStore;

  constructor(store: CredentialStore) {
    this.#store = store;
  }

  /** The login at a server; `undefined` when logged out. @throws {SbxError} as the store */
  find(place: LoginPlace): LoginView | undefined {
    const entries = this.#store.list().filter(({ login, revoked_at }) =>
      login && revoked_at === undefined && isSamePlace(login, place)
    );
    const access = entries.find(({ login }) => login?.part === "access");
    if (!access?.login?.terms) return undefined;
    const isRenewable = entries.some(({ login }) => login?.part === "refresh");
    return { ref: access.ref, terms: access.login.terms, isRenewable };
  }

  /** The login with its secrets. @throws {SbxError} as the store, also when an entry was changed */
  async open(place: LoginPlace): Promise<OpenLogin | undefined> {
    const { file } = this.#store.read();
    const entries = file?.entries.filter(({ login, sealed }) => login && sealed && isSamePlace(login, place));
    if (!file || !entries) return undefined;
    const secrets = await this.#store.open(file, entries);
    const secretOf = (part: LoginPart) =>
      secrets.get(entries.find(({ login }) => login?.part === part)?.ref ?? "");
    const terms = entries.find(({ login }) => login?.part === "access")?.login?.terms;
    const access = secretOf("access");
    if (!terms || access === undefined) return undefined;
    return { terms, access, refresh: secretOf("refresh"), client: secretOf("client") };
  }

  /**
   * Opens the secret of a client that was registered by hand.
   *
   * @param endpoint where it goes; a person has to have added it for that host
   * @returns `undefined` for every other ref: a definition could name any
   */
  async clientSecret(ref: string, { hostname, host }: URL): Promise<string | undefined> {
    const { file } = this.#store.read();
    const entry = file?.entries.find((each) =>
      each.ref === ref && each.provider === "mcp" && each.sealed && !each.decoy && !each.login &&
      each.source === "added" && each.hosts?.some((bound) => bound === hostname || bound === host)
    );
    return file && entry && (await this.#store.open(file, [entry])).get(ref);
  }

  /** Stores a login in place of the one before. @throws {SbxError} as the store */
  async save(place: LoginPlace, { terms, access, refresh, client }: OpenLogin): Promise<void> {
    const secrets: NewLoginSecret[] = [{ part: "access", secret: access, terms }];
    if (refresh !== undefined) secrets.push({ part: "refresh", secret: refresh });
    if (client !== undefined) secrets.push({ part: "client", secret: client });
    await this.#store.replaceLogin(place, secrets);
  }

  /** Removes a login. @returns false if absent */
  async remove(place: LoginPlace): Promise<boolean> {
    return (await this.#store.replaceLogin(place, [])).length > 0;
  }

  /**
   * Runs `change` while no other process changes the login: a refresh token may be good for one use only.
   *
   * @throws {SbxError} `credential.busy`
   */
  async exclusively<T>({ profile, server, url }: LoginPlace, change: () => Promise<T>): Promise<T> {
    return await exclusively(this.#store.path, [profile, server, url], `the login at ${server}`, change);
  }
}

/**
 * Runs `change` while no other process of this host changes the same login.
 *
 * @param store path of the store
 * @param what name of the login, for the error
 * @throws {SbxError} `credential.busy`
 */
export async function exclusively<T>(
  store: string,
  key: readonly string[],
  what: string,
  change: () => Promise<T>,
): Promise<T> {
  const path = `${store}.${blake3(JSON.stringify(key)).slice(0, 16)}.lock`;
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  using lock = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(lock, RENEWAL_WAIT_MS)) {
    throw new SbxError("credential.busy", `another program renews ${what} and does not end`, {
      hint: "close other sbx programs and try again",
    });
  }
  return await change();
}
