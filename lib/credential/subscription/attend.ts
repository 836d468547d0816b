/**
 * The part of the host in the requests of a VM with a subscription
 * (docs/design/contracts/09-credentials.md §9, "Subscriptions"): it renews the token that a request
 * carries, and answers a renewal of the guest itself.
 */
import { plainHost } from "../../base/address/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { CredentialSubstitution } from "../../event/mod.ts";
import type { AttendedRequest, HostAnswer } from "../../network/interface/mod.ts";
import { plainRef, REF_IN_TEXT } from "../ref.ts";
import type { Credential, Vault } from "../vault.ts";
import { NOT_RENEWED, RENEW_BEFORE_MS, type Subscription, type Subscriptions } from "./subscriptions.ts";

/** `s` for which a guest takes its refs for good: timers of programs count at most 24 days. */
export const GUEST_LIFE_S = 20 * 86_400;
/** `ms` between renewals of a token that its provider refused. */
const REFUSED_AGAIN_MS = 60_000;
/** Longest request for a token that is read, in `bytes`. */
const REQUEST_MAX = 64 * 1024;

const REFS = new RegExp(REF_IN_TEXT, "gi");

export class SubscriptionHost {
  readonly #vault: Vault;
  readonly #logins: Subscriptions;
  /** ref → time of the token that its provider refused */
  readonly #refused = new Map<string, number>();
  /** ref → why it was not renewed, as the log has it */
  readonly #failing = new Map<string, string>();

  constructor(vault: Vault, logins: Subscriptions) {
    this.#vault = vault;
    this.#logins = logins;
  }

  /**
   * True where a guest's request is answered by the host, if it carries a ref of a login: its body is needed.
   */
  answers(host: string, path: string): boolean {
    return this.#vault.catalogue.tokenEndpointOf(plainHost(host), path) !== undefined &&
      this.#vault.active().some(({ entry }) => entry.subscription !== undefined);
  }

  /**
   * Prepares a request whose head and body have refs.
   *
   * @returns the host's own answer; `undefined` for a request that goes to the upstream
   * @throws {SbxError} `login.failed`, `login.over`: there is no token that holds
   */
  async attend(request: AttendedRequest): Promise<HostAnswer | undefined> {
    if (request.scheme !== "https") return undefined;
    const renewing = this.#renewedBy(request);
    if (renewing) return await this.#answer(renewing, request);
    const carried = new Set(request.headers.flatMap(([, value]) => value.match(REFS) ?? []).map(plainRef));
    for (const ref of carried) {
      const credential = this.#vault.get(ref.toLowerCase());
      if (credential && this.#mayCarry(request, credential)) await this.#keepFresh(credential);
    }
  }

  /** True for the token of a login in a request that may carry it: no other one makes the host renew it. */
  #mayCarry({ host, path }: AttendedRequest, { entry, isRevoked }: Credential): boolean {
    const { provider, subscription } = entry;
    return subscription?.part === "access" && !isRevoked && this.#vault.mayUse(provider, false) &&
      this.#vault.leaves(entry) && this.#vault.catalogue.carriesSubscription(provider, host, path);
  }

  /** A provider answered a request with these refs with 401. */
  refused(refs: Iterable<string>): void {
    for (const ref of refs) {
      const terms = this.#vault.get(ref)?.entry.subscription?.terms;
      if (terms) this.#refused.set(ref, terms.renewed_at);
    }
  }

  /** The login that a request of a guest would renew, or have exchanged for a token. */
  #renewedBy({ host, path, method, headers, body }: AttendedRequest): Credential | undefined {
    const { catalogue } = this.#vault;
    const name = plainHost(host);
    const isExchange = method === "GET" &&
      this.#logins.providers.some(({ facts }) =>
        facts.exchange !== undefined && URL.parse(facts.exchange)?.host === name &&
        new URL(facts.exchange).pathname === path
      );
    let text: string | undefined;
    if (isExchange) text = headers.find(([field]) => field === "authorization")?.[1].replace(/^\S+\s+/, "");
    else if (method === "POST" && catalogue.tokenEndpointOf(name, path) !== undefined && body) {
      text = refreshTokenOf(body);
    }
    const credential = text === undefined ? undefined : this.#vault.get(plainRef(text.trim()).toLowerCase());
    if (credential?.entry.subscription?.part !== "refresh" || credential.isRevoked) return undefined;
    const { provider } = credential.entry;
    const owner = isExchange ? catalogue.ownerOf(name) : catalogue.tokenEndpointOf(name, path);
    const mayUse = this.#vault.mayUse(provider, false) && this.#vault.leaves(credential.entry);
    return owner === provider && mayUse ? credential : undefined;
  }

  async #answer({ entry }: Credential, { host }: AttendedRequest): Promise<HostAnswer> {
    const { login } = entry.subscription!;
    const found = this.#logins.find({ login, label: entry.label });
    const access = found && this.#vault.get(found.access.ref);
    if (access) await this.#keepFresh(access);
    const current = this.#logins.find({ login, label: entry.label }) ?? found;
    const substitution: CredentialSubstitution = {
      provider: entry.provider,
      credential_ref: entry.ref,
      host: plainHost(host),
      location: "renewal",
      outcome: "brokered",
    };
    const answer = current === undefined
      ? { error: "invalid_grant" }
      : this.#logins.providerOf(login).facts.exchange !== undefined
      ? exchangeAnswer(current)
      : tokenAnswer(current);
    return {
      status: current === undefined ? 400 : 200,
      body: new TextEncoder().encode(JSON.stringify(answer)),
      substitutions: [substitution],
    };
  }

  /** Renews the token behind a ref where it ends soon, or was refused. */
  async #keepFresh({ entry }: Credential): Promise<void> {
    const { login, terms } = entry.subscription!;
    if (!terms || !this.#isStale(entry.ref, terms)) return;
    try {
      await this.#logins.renew(
        { login, label: entry.label },
        (found) => this.#isStale(found.access.ref, found.terms),
      );
      if (this.#failing.delete(entry.ref)) log.info(`the login ${login} is renewed again`);
    } catch (error) {
      this.#noteFailure(entry.ref, login, error as Error);
      // A token that still holds is used until its end.
      if ((terms.expires_at ?? Infinity) <= Date.now()) throw error;
    }
    await this.#vault.refresh();
  }

  /** One line for a failure that goes on: each request tries. */
  #noteFailure(ref: string, login: string, { message }: Error): void {
    const reason = message.replace(NOT_RENEWED, "");
    if (this.#failing.get(ref) === reason) return;
    this.#failing.set(ref, reason);
    log.warn(`the login ${login} was not renewed:`, reason);
  }

  #isStale(ref: string, { expires_at, renewed_at }: Subscription["terms"]): boolean {
    if (expires_at !== undefined && expires_at - RENEW_BEFORE_MS < Date.now()) return true;
    return this.#refused.get(ref) === renewed_at && Date.now() - renewed_at > REFUSED_AGAIN_MS;
  }
}

/** Refresh token of a request of OAuth; `undefined` for another grant. */
function refreshTokenOf(body: Uint8Array): string | undefined {
  if (body.length > REQUEST_MAX) return undefined;
  const text = new TextDecoder().decode(body);
  let fields: Record<string, unknown>;
  try {
    fields = objectOf(JSON.parse(text));
  } catch {
    fields = Object.fromEntries(new URLSearchParams(text));
  }
  const { grant_type, refresh_token } = fields;
  return grant_type === "refresh_token" && typeof refresh_token === "string" ? refresh_token : undefined;
}

function tokenAnswer({ access, refresh, terms }: Subscription) {
  return {
    access_token: access.ref,
    refresh_token: refresh?.ref,
    token_type: "Bearer",
    expires_in: GUEST_LIFE_S,
    ...(terms.scope !== undefined && { scope: terms.scope }),
  };
}

function exchangeAnswer({ access }: Subscription) {
  return {
    token: access.ref,
    expires_at: Math.floor(Date.now() / 1000) + GUEST_LIFE_S,
    refresh_in: GUEST_LIFE_S,
    endpoints: { api: "https://api.githubcopilot.com" },
  };
}
