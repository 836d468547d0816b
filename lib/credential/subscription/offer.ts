/**
 * Logins that an agent made inside a VM (docs/design/contracts/09-credentials.md §9, "Subscriptions"): a
 * person may keep them on the host, for other VMs too.
 */
import { plainHost } from "../../base/address/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import type { OfferedLogin, StoredEntry } from "../entry.ts";
import type { Definition, OauthFacts } from "../provider.ts";
import { type Answer, type LoginTokens, tokensOf } from "./answer.ts";

/** A login that is offered, by the ref of the token that renews it. */
export interface LoginOffer extends OfferedLogin {
  ref: string;
  provider: string;
  /** id of the VM */
  vm: string;
  /** ISO 8601 */
  made_at: string;
}

/** A login that a guest gets. */
export interface GuestLogin {
  facts: OauthFacts;
  tokens: LoginTokens & { refresh: string };
}

/**
 * The login in an answer of a token endpoint; `undefined` for another endpoint, and for
 * an answer that nothing renews.
 */
export function loginIn(
  definition: Definition | undefined,
  { host, path }: { host: string; path: string },
  text: string,
): GuestLogin | undefined {
  const facts = definition?.oauth;
  if (!facts) return undefined;
  const endpoint = new URL(facts.token);
  if (endpoint.hostname !== plainHost(host) || endpoint.pathname !== path) return undefined;
  try {
    const answer = objectOf(JSON.parse(text));
    const tokens = tokensOf(facts, answer, { claims: claimsOf(answer.id_token) });
    const { refresh } = tokens;
    return refresh === undefined ? undefined : { facts, tokens: { ...tokens, refresh } };
  } catch {
    // An error, or tokens of another kind.
    return undefined;
  }
}

/**
 * Claims of an ID token, for a list alone: the host asks the provider for its own before it keeps the login.
 */
function claimsOf(token: unknown): Answer | undefined {
  if (typeof token !== "string") return undefined;
  const bytes = Uint8Array.fromBase64(token.split(".")[1] ?? "", { alphabet: "base64url" });
  return objectOf(JSON.parse(new TextDecoder().decode(bytes)));
}

/** The last login of each kind that each VM made. */
export function offersIn(entries: readonly StoredEntry[]): LoginOffer[] {
  const found = new Map<string, LoginOffer>();
  for (const { ref, provider, source, revoked_at, created_at, offer, vms: [vm] = [] } of entries) {
    if (!offer || source !== "captured" || revoked_at !== undefined || vm === undefined) continue;
    // A renewal in the VM took the token before out of use.
    const key = JSON.stringify([vm, offer.login]);
    if ((found.get(key)?.made_at ?? "") > created_at) continue;
    found.set(key, { ...offer, ref, provider, vm, made_at: created_at });
  }
  return [...found.values()];
}
