/**
 * Logins of subscriptions on the host (docs/design/contracts/09-credentials.md §9, "Subscriptions"): their
 * tokens in the store, renewed once for all processes.
 */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { StoredEntry, SubscriptionTerms } from "../entry.ts";
import { exclusively } from "../login.ts";
import { type Definition, DEFINITIONS, type OauthFacts, type Provider } from "../provider.ts";
import { refOf } from "../ref.ts";
import type { CredentialStore } from "../store.ts";
import type { LoginTokens } from "./answer.ts";
import { type LoginOffer, offersIn } from "./offer.ts";

/** `ms` before the end of a token from which it is renewed. */
export const RENEW_BEFORE_MS = 120_000;
/**
 * `ms` after a failed renewal in which no process tries again: a failing provider
 * is not asked with every request.
 */
const RETRY_MS = 30_000;
/** Beginning of the error of a renewal that failed before, and is not tried again yet. */
export const NOT_RENEWED = "the login was not renewed: ";
const OTHERS_TOKEN = "the provider answered with the refresh token of another login";
/** Most refresh tokens that are remembered. */
const USED_MAX = 16;

/** Provider with a login, and its facts. */
export interface LoginProvider {
  provider: Provider;
  facts: OauthFacts;
}

/** A login without its secrets. */
export interface Subscription {
  login: string;
  provider: Provider;
  label?: string;
  access: StoredEntry;
  refresh?: StoredEntry;
  terms: SubscriptionTerms;
}

/** One login: its word and its label. */
export interface SubscriptionKey {
  login: string;
  label?: string;
}

/** Renews a login; as `renewLogin` of oauth.ts. */
export type Renew = (facts: OauthFacts, refresh: string) => Promise<LoginTokens | undefined>;

export class Subscriptions {
  readonly #store: CredentialStore;
  readonly #providers: ReadonlyMap<string, LoginProvider>;
  readonly #renewals = new Map<string, Promise<void>>();

  constructor(store: CredentialStore, definitions: readonly Definition[] = DEFINITIONS) {
    this.#store = store;
    this.#providers = new Map(
      definitions.flatMap(({ id, oauth }) => oauth ? [[oauth.login, { provider: id, facts: oauth }]] : []),
    );
  }

  /** @throws {SbxError} `login.unknown` */
  providerOf(login: string): LoginProvider {
    const found = this.#providers.get(login);
    if (found) return found;
    throw new SbxError("login.unknown", `sbx has no login "${login}"`, {
      hint: [
        didYouMean(login, this.#providers.keys()),
        `logins are ${[...this.#providers.keys()].join(", ")}`,
      ]
        .filter(Boolean).join(" "),
    });
  }

  get providers(): readonly LoginProvider[] {
    return [...this.#providers.values()];
  }

  /** Logins, the oldest first. @throws {SbxError} as the store */
  list(): Subscription[] {
    return subscriptionsIn(this.#store.list());
  }

  find(key: SubscriptionKey): Subscription | undefined {
    return this.list().find((each) => isSame(each, key));
  }

  /**
   * Stores a login in place of the one of the same label, whose refs it keeps: VMs that have them go on.
   *
   * @throws {SbxError} as the store; `login.failed`: the provider gave no token that renews it
   */
  async save({ login, label }: SubscriptionKey, tokens: LoginTokens): Promise<Subscription> {
    const { provider } = this.providerOf(login);
    const { refresh } = tokens;
    if (refresh === undefined) {
      throw new SbxError("login.failed", "the provider gave no token that renews this login", {
        hint: `run sbx login ${login} again`,
      });
    }
    await this.#exclusively({ login, label }, () =>
      this.#store.put((entries) => {
        const before = subscriptionsIn([...entries.values()]).find((each) => isSame(each, { login, label }));
        const other = subscriptionsIn([...entries.values()]).find((each) =>
          !isSame(each, { login, label }) && usedOf(each).includes(refOf(provider, refresh))
        );
        if (other) throw conflictError(login);
        const terms: SubscriptionTerms = {
          ...termsOf(tokens),
          used: [refOf(provider, refresh)],
        };
        const entryOf = (part: "access" | "refresh", old: StoredEntry | undefined): StoredEntry => ({
          ref: old?.ref ?? handleOf(provider),
          provider,
          ...(label !== undefined && { label }),
          ...(part === "refresh" && { hosts: [] }),
          created_at: new Date().toISOString(),
          source: "added",
          subscription: { login, part, ...(part === "access" && { terms }) },
        });
        return {
          put: [
            { entry: entryOf("access", before?.access), secret: tokens.access },
            { entry: entryOf("refresh", before?.refresh), secret: refresh },
          ],
        };
      }));
    return this.find({ login, label })!;
  }

  /** Logins that agents made in VMs. @throws {SbxError} as the store */
  offers(): LoginOffer[] {
    return offersIn(this.#store.list());
  }

  /**
   * Keeps a login that an agent made in a VM, whose refs it gets: the VM goes on. The host renews it first,
   * so that the provider itself says whose it is, and no token that was in a program's reach is stored.
   *
   * @param ref of an offer
   * @throws {SbxError} `login.not_found`, `credential.conflict`; the VM's login stays. `login.over`: the
   * provider renews it no more, or with tokens of another account or login, and the VM has to log in again
   */
  async keep(ref: string, label?: string, renew: Renew = renewOnHost): Promise<Subscription> {
    const offered = this.offers().find((each) => each.ref === ref);
    if (!offered) throw notOffered(ref);
    const { login, provider } = offered;
    const key = { login, ...(label !== undefined && { label }) };
    const { facts } = this.providerOf(login);
    const keep = async () => {
      const entry = this.#store.list().find((each) => each.ref === ref && each.offer);
      const secret = entry && await this.#secretOf(entry);
      if (secret === undefined) throw notOffered(ref);
      if (this.find(key)) throw takenError(key);
      // The renewal would take the token from the login that has it.
      const isTaken = (token: string) =>
        this.list().some((each) => usedOf(each).includes(refOf(provider, token)));
      if (isTaken(secret)) throw conflictError(login);
      await using room = await this.#reserve();
      const tokens = await renew(facts, secret);
      if (!tokens) throw overError(login, "the provider does not renew the login of the VM any more");
      const { account } = offered;
      if (account !== undefined && tokens.account !== undefined && tokens.account !== account) {
        throw overError(login, "the provider answered with tokens of another account");
      }
      const next = tokens.refresh ?? secret;
      if (isTaken(next)) throw overError(login, OTHERS_TOKEN);
      await room.release();
      await this.#store.put((entries) => {
        if (entries.get(ref)?.sealed !== entry!.sealed) throw failedError("the login was changed meanwhile");
        const access = entries.get(offered.access);
        const isFree = access === undefined ||
          access.source === "captured" && access.revoked_at === undefined;
        const used = [...new Set([refOf(provider, next), refOf(provider, secret)])];
        const terms = { ...termsOf({ ...tokens, account: tokens.account ?? account }), used };
        const made = { provider, ...(label !== undefined && { label }), source: "added" as const };
        const created_at = new Date().toISOString();
        // The VM has logged in again since: none of these would be offered next. One of another account, or
        // of another VM too, may still be used.
        const former = [...entries.values()].filter(({ ref: each, source, offer, vms = [] }) =>
          each !== ref && source === "captured" && offer?.login === login && offer.account === account &&
          vms.length === 1 && vms[0] === offered.vm
        );
        return {
          removed: former.map(({ ref: each }) => each),
          put: [
            {
              entry: {
                ...made,
                ref: isFree ? offered.access : handleOf(provider),
                created_at,
                subscription: { login, part: "access", terms },
              },
              secret: tokens.access,
            },
            {
              entry: { ...made, ref, hosts: [], created_at, subscription: { login, part: "refresh" } },
              secret: next,
            },
          ],
        };
      });
    };
    // Under another label too: a provider may end a login whose token comes twice.
    await exclusively(
      this.#store.path,
      ["offer", login],
      `the login ${login}`,
      () => this.#exclusively(key, keep),
    );
    return this.find(key)!;
  }

  /** Forgets a login; the provider is not asked. @returns false without one */
  async remove(key: SubscriptionKey): Promise<boolean> {
    let isRemoved = false;
    await this.#exclusively(key, () =>
      this.#store.put((entries) => {
        const gone = [...entries.values()].filter(({ subscription, label }) =>
          subscription?.login === key.login && label === key.label
        );
        isRemoved = gone.some(({ revoked_at }) => revoked_at === undefined);
        return { put: [], removed: gone.map(({ ref }) => ref) };
      }));
    return isRemoved;
  }

  /**
   * Renews a login once for all that wait for it, in all processes of this host.
   *
   * @param isStale whether the token as it is stored now needs it: another process may have been faster
   * @throws {SbxError} `login.failed`, `login.over`, `login.account`; the stored tokens stay
   */
  renew(
    key: SubscriptionKey,
    isStale: (found: Subscription) => boolean,
    renew: Renew = renewOnHost,
  ): Promise<void> {
    const name = JSON.stringify([key.login, key.label]);
    const running = this.#renewals.get(name);
    if (running) return running;
    const renewal = this.#exclusively(key, () => this.#renewNow(key, isStale, renew))
      .finally(() => this.#renewals.delete(name));
    this.#renewals.set(name, renewal);
    return renewal;
  }

  async #renewNow(
    key: SubscriptionKey,
    isStale: (found: Subscription) => boolean,
    renew: Renew,
  ): Promise<void> {
    const found = this.find(key);
    if (!found || !isStale(found)) return;
    const { facts, provider } = this.providerOf(key.login);
    const { problem } = found.terms;
    if (problem?.is_over) throw overError(key.login, problem.text);
    if (problem && Date.now() - problem.at < RETRY_MS) throw failedError(problem.text);
    const refresh = found.refresh && await this.#secretOf(found.refresh);
    if (refresh === undefined) throw overError(key.login, "it has no token that renews it");
    // A provider may take a refresh token once: without room for its successor it is not spent.
    await using room = await this.#reserve();
    const tokens = await renew(facts, refresh).catch(async (error) => {
      await this.#fail(found, (error as Error).message, false);
      throw error;
    });
    if (!tokens) {
      await this.#fail(found, "the provider does not renew it any more", true);
      throw overError(key.login, "the provider does not renew it any more");
    }
    const reason = refusalOf(found, tokens, refresh, provider, this.list());
    if (reason !== undefined) {
      await this.#fail(found, reason, true);
      throw overError(key.login, reason);
    }
    await room.release();
    await this.#keep(found, tokens, refresh);
  }

  /** Puts new tokens in place of the old ones, both in one write: only then is one used. */
  async #keep(found: Subscription, tokens: LoginTokens, before: string): Promise<void> {
    const { provider, access, refresh, terms } = found;
    const next = tokens.refresh ?? before;
    await this.#store.put((entries) => {
      // A logout, or another login, in the meantime: these tokens are of the one before.
      if (entries.get(access.ref)?.sealed !== access.sealed) {
        throw failedError("the login was changed meanwhile");
      }
      const used = [refOf(provider, next), ...(terms.used ?? [])];
      const renewed: SubscriptionTerms = {
        ...termsOf(tokens, terms),
        used: [...new Set(used)].slice(0, USED_MAX),
      };
      const entry = { ...access, subscription: { ...access.subscription!, terms: renewed } };
      return { put: [{ entry, secret: tokens.access }, { entry: refresh!, secret: next }] };
    });
  }

  /** Remembers why a login was not renewed, as far as the store can be written. */
  async #fail(found: Subscription, text: string, is_over: boolean): Promise<void> {
    await this.#note(found, text, is_over).catch(ignore("the caller has the failure itself"));
  }

  async #note({ access }: Subscription, text: string, is_over: boolean): Promise<void> {
    const secret = await this.#secretOf(access);
    if (secret === undefined) return;
    await this.#store.put((entries) => {
      const now = entries.get(access.ref);
      if (now?.sealed !== access.sealed || now?.revoked_at !== undefined) return { put: [] };
      const terms = { ...access.subscription!.terms!, problem: { text, at: Date.now(), is_over } };
      return { put: [{ entry: { ...access, subscription: { ...access.subscription!, terms } }, secret }] };
    });
  }

  async #secretOf(entry: StoredEntry): Promise<string | undefined> {
    const { file } = this.#store.read();
    const stored = file?.entries.find(({ ref, sealed }) => ref === entry.ref && sealed !== undefined);
    return file && stored && (await this.#store.open(file, [stored])).get(entry.ref);
  }

  /** Keeps room on the disk for the tokens that come. @throws {SbxError} `login.failed`: there is none */
  async #reserve(): Promise<AsyncDisposable & { release(): Promise<void> }> {
    const path = `${this.#store.path}.room`;
    const release = () => Deno.remove(path).catch(ignore("it was not made, or is gone"));
    try {
      const { size } = await Deno.stat(this.#store.path);
      using file = await Deno.open(path, { write: true, create: true, truncate: true, mode: 0o600 });
      const room = crypto.getRandomValues(new Uint8Array(ROOM_BLOCK));
      for (let at = 0; at < size + ROOM_SPARE; at += room.length) await writeAll(file, room);
      await file.sync();
    } catch (cause) {
      await release();
      throw new SbxError(
        "login.failed",
        "the disk has no room for the tokens of the login, which stays as it is",
        {
          cause,
          hint: "make room on the disk of the sbx home",
        },
      );
    }
    return { release, [Symbol.asyncDispose]: release };
  }

  #exclusively<T>({ login, label = "" }: SubscriptionKey, change: () => Promise<T>): Promise<T> {
    return exclusively(this.#store.path, ["subscription", login, label], `the login ${login}`, change);
  }
}

/** `bytes` of the reserved room beyond the size of the store, and written at once. */
const ROOM_SPARE = 64 * 1024;
const ROOM_BLOCK = 16 * 1024;

async function renewOnHost(facts: OauthFacts, refresh: string): Promise<LoginTokens | undefined> {
  const { renewLogin } = await import("./oauth.ts");
  return await renewLogin(facts, refresh);
}

/** A ref that has nothing to do with the token behind it, and stays when that is renewed. */
function handleOf(provider: Provider): string {
  return refOf(provider, crypto.getRandomValues(new Uint8Array(32)).toHex());
}

function subscriptionsIn(entries: readonly StoredEntry[]): Subscription[] {
  const alive = entries.filter(({ subscription, revoked_at }) => subscription && revoked_at === undefined);
  return alive.flatMap((access) => {
    const { login, part, terms } = access.subscription!;
    if (part !== "access" || !terms) return [];
    const refresh = alive.find((other) =>
      other.subscription!.part === "refresh" && other.subscription!.login === login &&
      other.label === access.label
    );
    const { provider, label } = access;
    return [{
      login,
      provider,
      ...(label !== undefined && { label }),
      access,
      ...(refresh && { refresh }),
      terms,
    }];
  });
}

function isSame(a: SubscriptionKey, b: SubscriptionKey): boolean {
  return a.login === b.login && a.label === b.label;
}

function termsOf(tokens: LoginTokens, before?: SubscriptionTerms): SubscriptionTerms {
  const account = tokens.account ?? before?.account;
  const scope = tokens.scope ?? before?.scope;
  return {
    ...(account !== undefined && { account }),
    ...(scope !== undefined && { scope }),
    ...(tokens.expires_at !== undefined && { expires_at: tokens.expires_at }),
    renewed_at: Date.now(),
    facts: { ...before?.facts, ...tokens.facts },
  };
}

function usedOf({ terms }: Subscription): readonly string[] {
  return terms.used ?? [];
}

/** Why renewed tokens are not taken; `undefined` for good ones. */
function refusalOf(
  found: Subscription,
  tokens: LoginTokens,
  before: string,
  provider: Provider,
  all: readonly Subscription[],
): string | undefined {
  const { account } = found.terms;
  if (account !== undefined && tokens.account !== undefined && tokens.account !== account) {
    return "the provider answered with tokens of another account";
  }
  if (tokens.refresh === undefined || tokens.refresh === before) return undefined;
  const ref = refOf(provider, tokens.refresh);
  if (usedOf(found).includes(ref)) return "the provider answered with a refresh token that was used before";
  const isOthers = all.some((each) => !isSame(each, found) && usedOf(each).includes(ref));
  return isOthers ? OTHERS_TOKEN : undefined;
}

function notOffered(ref: string): SbxError {
  return new SbxError("login.not_found", `no VM has made a login with the ref ${ref}`, {
    hint: "sbx credentials keep lists the ones that VMs made",
  });
}

function takenError({ login, label }: SubscriptionKey): SbxError {
  const name = label === undefined ? "without a label" : `with the label ${label}`;
  return new SbxError("credential.conflict", `this host has a login ${login} ${name}`, {
    hint: "give another label: sbx credentials keep REF --label TEXT",
  });
}

function conflictError(login: string): SbxError {
  return new SbxError("credential.conflict", "another login has the token of this one", {
    hint: `sbx login lists the logins; sbx logout ${login} --label LABEL forgets one`,
  });
}

function failedError(text: string): SbxError {
  return new SbxError("login.failed", `${NOT_RENEWED}${text}`, {
    hint: "sbx login shows the logins; it is tried again",
  });
}

function overError(login: string, text: string): SbxError {
  return new SbxError("login.over", `the login ${login} has ended: ${text}`, {
    hint: `run sbx login ${login} on the host`,
  });
}
