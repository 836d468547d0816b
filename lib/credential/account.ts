/**
 * Accounts at providers (docs/design/contracts/09-credentials.md §9, "Accounts"): with `stored`, a VM uses a
 * provider's hosts with the store's accounts or unauthenticated, so that no data leaves to another person's
 * account.
 */
import type { CredentialSubstitution } from "../event/mod.ts";
import type { BodyFilter, BodyPlace, Destination } from "../network/interface/mod.ts";
import { basicText, splitPair } from "./head.ts";
import { deniedError, REASON } from "./grant.ts";
import { plainHost } from "../base/address/mod.ts";
import { lenientPath } from "../base/url/mod.ts";
import type { Provider } from "./provider.ts";
import { plainRef, REF_IN_TEXT } from "./ref.ts";
import type { RegistryTokens } from "./registry.ts";
import { latin1 } from "./body.ts";
import type { Vault } from "./vault.ts";

/** `any`: also keys that the guest brought; `stored`: only keys that a person added. */
export const ACCOUNTS = ["any", "stored"] as const;
export type Accounts = typeof ACCOUNTS[number];

/** Headers that identify the account, at any provider. */
const HEADER = /(?:^|[-_])(?:authorization|api[-_]?key|auth|token)$/;
/** Query parameters that identify it, in addition to the parameters of the host's provider. */
const QUERY = /^(?:access_?token|oauth_?token|bearer_?token|api[-_]?key|token|jwt|client_secret)$/;
/** WebSocket subprotocols that carry a key, of browsers at OpenAI. */
const PROTOCOL = /api-key|token|bearer/i;
/** Cookies of Cloudflare, which distinguish connections, not accounts. */
const ANONYMOUS_COOKIE = /^(?:__cf_?[a-z]+|_cfuvid|cf_[a-z]+)=/;
/** Fields of a request for a token that say whose (RFC 6749, 7523, 8628, 8693). */
const TOKEN_FIELD =
  /^(?:refresh_token|code|assertion|client_assertion|subject_token|actor_token|device_code|password|token|access_token|client_secret)$/i;
/** Parameters of a request to a registry for a token. */
const REALM_QUERY = /^(?:service|scope|account|client_id|offline_token)$/;
/** Longest request for a token, in `bytes`; real ones have a few KB. */
const TOKEN_REQUEST_MAX = 64 * 1024;

const WHOLE_REF = new RegExp(`^${REF_IN_TEXT}$`, "i");
/** `user:REF`, or `REF:password`. */
const BASIC = new RegExp(`^(?:[^:]*:(${REF_IN_TEXT})|(${REF_IN_TEXT}):[^:]*)$`, "i");
const BEARER = /^\s*bearer\s+(\S+)\s*$/i;
/** Authentication scheme before a key. */
const SCHEME = /^\s*[A-Za-z][A-Za-z0-9-]*\s+/;

/**
 * Requires that a request's head names accounts of the store only.
 *
 * @param headers with refs in place of secrets, and the target as `:path`
 * @param tokens of registries, which gave them for an account of the store, or for none
 * @throws {CredentialDenied} it names another one; no part of the request may be sent
 */
export function requireStoredHead(
  vault: Vault,
  to: Destination,
  headers: readonly (readonly [string, string])[],
  tokens: RegistryTokens,
): void {
  const provider = vault.providerAt(to.host);
  if (provider === undefined) return;
  const guard = new AccountGuard(vault, to.host, provider);
  const target = headers.find(([name]) => name === ":path")?.[1] ?? "";
  const [path] = target.split("?", 1);
  // As for the body and the answer: a server may read another spelling as the same place.
  const isRealm = tokens.isRealm({ host: to.host, path: lenientPath(path) });
  if (isRealm) guard.requireRealm(target.slice(path.length + 1));
  for (const [name, value] of headers) {
    const token = name === "authorization" ? BEARER.exec(value)?.[1] : undefined;
    const secret = token === undefined
      ? undefined
      : (vault.get(plainRef(token).toLowerCase())?.secret ?? token);
    if (secret !== undefined && tokens.gave(to.host, path, secret)) continue;
    if (isRealm && name === "content-encoding") guard.deny("body");
    else if (name === ":path") guard.requireTarget(value);
    else if (name === "cookie") guard.requireCookies(value);
    else if (name === "sec-websocket-protocol" && PROTOCOL.test(value)) guard.deny(name);
    else if (HEADER.test(name)) guard.requireHeader(name, value);
    else if (name === "content-encoding" && guard.isTokenRequest(headers)) guard.deny("body");
  }
}

/**
 * Filter of a request for a token, which may spend tokens of the store only; `undefined` for any other body.
 * A registry gets none: it would be read in more ways than one.
 */
export function storedTokenBody(
  vault: Vault,
  place: BodyPlace,
  inner: BodyFilter,
  tokens: RegistryTokens,
): BodyFilter | undefined {
  const owner = vault.providerAt(place.host);
  if (owner !== undefined && tokens.isRealm(place)) {
    const guard = new AccountGuard(vault, place.host, owner);
    const push = (chunk: Uint8Array) => chunk.length > 0 ? guard.deny("body") : chunk;
    return { push, end: () => new Uint8Array(0), substitutions: [], searching: true, keepsLength: false };
  }
  const provider = vault.catalogue.tokenAnswerOf(place.host, place.path);
  return provider === undefined
    ? undefined
    : new TokenRequest(new AccountGuard(vault, place.host, provider), inner);
}

class AccountGuard {
  readonly #vault: Vault;
  readonly #host: string;
  readonly #provider: Provider;

  constructor(vault: Vault, host: string, provider: Provider) {
    this.#vault = vault;
    this.#host = plainHost(host);
    this.#provider = provider;
  }

  /** Requires that a value is a ref of the store; the injection judges unknown refs. */
  require(value: string, location: string): void {
    const text = value.trim();
    if (text === "") return;
    if (!WHOLE_REF.test(text)) this.deny(location, text);
    const ref = plainRef(text).toLowerCase();
    const entry = this.#vault.get(ref)?.entry;
    if (entry && entry.source !== "added" && !entry.decoy) this.deny(location, text, ref);
  }

  /** A key alone, behind its scheme, or as one half of a Basic header. */
  requireHeader(name: string, value: string): void {
    const basic = basicText(value);
    if (basic === undefined) return this.require(value.replace(SCHEME, ""), name);
    // A ref has colons itself.
    const [, password, user] = BASIC.exec(basic) ?? [];
    this.require(password ?? user ?? basic, name);
  }

  /** The account of a registry's token is in the header alone. */
  requireRealm(query: string): void {
    for (const pair of query.split(/[&;]/)) {
      const name = decode(splitPair(pair)[0]);
      if (name !== "" && !REALM_QUERY.test(name)) this.deny(`query ${name}`, decode(splitPair(pair)[1]));
    }
  }

  requireTarget(target: string): void {
    const mark = target.indexOf("?");
    if (mark < 0) return;
    const isToken = this.#vault.catalogue.tokenAnswerOf(this.#host, target.slice(0, mark)) !== undefined;
    for (const pair of target.slice(mark + 1).split(/[&;]/)) {
      const [name, value] = splitPair(pair).map(decode);
      const says = this.#vault.catalogue.allowsQuery(this.#provider, name) || QUERY.test(name.toLowerCase());
      if (says || isToken && TOKEN_FIELD.test(name)) {
        this.require(value, `query ${name}`);
      }
    }
  }

  requireCookies(value: string): void {
    for (const cookie of value.split(";")) {
      if (!ANONYMOUS_COOKIE.test(cookie.trim())) this.require(splitPair(cookie)[1], "cookie");
    }
  }

  isTokenRequest(headers: readonly (readonly [string, string])[]): boolean {
    const target = headers.find(([name]) => name === ":path")?.[1] ?? "";
    return this.#vault.catalogue.tokenAnswerOf(this.#host, target.split("?")[0]) !== undefined;
  }

  /** Requires a ref of the store in each field of a request for a token that says whose it is. */
  requireTokenRequest(text: string): void {
    const fields = fieldsOf(text);
    if (!fields) return this.deny("body");
    for (const [name, value] of fields) {
      if (TOKEN_FIELD.test(name)) this.require(value, "body");
    }
  }

  /** @throws {CredentialDenied} */
  deny(location: string, value?: string, ref?: string): never {
    const row: CredentialSubstitution = {
      provider: this.#provider,
      credential_ref: ref ?? (value === undefined ? "unknown" : this.#vault.refOf(this.#provider, value)),
      host: this.#host,
      location,
      outcome: "denied",
      reason: REASON.account,
    };
    throw deniedError(row);
  }
}

/** A request for a token: nothing of it is sent before it is whole. */
class TokenRequest implements BodyFilter {
  readonly searching = true;
  readonly keepsLength = false;
  readonly #guard: AccountGuard;
  readonly #inner: BodyFilter;
  #held: Uint8Array[] = [];
  #size = 0;

  constructor(guard: AccountGuard, inner: BodyFilter) {
    this.#guard = guard;
    this.#inner = inner;
  }

  get substitutions(): readonly CredentialSubstitution[] {
    return this.#inner.substitutions;
  }

  get released(): AbortSignal | undefined {
    return this.#inner.released;
  }

  push(chunk: Uint8Array): Uint8Array {
    this.#size += chunk.length;
    if (this.#size > TOKEN_REQUEST_MAX) this.#guard.deny("body");
    this.#held.push(chunk.slice());
    return new Uint8Array(0);
  }

  end(): Uint8Array {
    this.#guard.requireTokenRequest(this.#held.map(latin1).join(""));
    const pieces = [...this.#held.map((chunk) => this.#inner.push(chunk)), this.#inner.end()];
    this.#held = [];
    return Uint8Array.from(pieces.flatMap((piece) => [...piece]));
  }
}

/**
 * Every field of a form, or of an object of JSON with plain values; `undefined` for
 * what servers may read otherwise.
 */
function fieldsOf(text: string): [name: string, value: string][] | undefined {
  if (text.trim() === "") return [];
  if (!/^\s*[{[]/.test(text)) {
    return text.includes("\n") ? undefined : [...new URLSearchParams(text.replaceAll(";", "&"))];
  }
  try {
    const fields: [string, string][] = [];
    JSON.parse(text, function (this: unknown, name, value) {
      if (typeof value === "string" && !Array.isArray(this)) fields.push([name, value]);
      return value;
    });
    // Of a repeated name, the parser keeps the last one; a server may take the first.
    return fields.length === (text.match(/"(?:[^"\\]|\\.)*"\s*:\s*"/g) ?? []).length ? fields : undefined;
  } catch {
    return undefined;
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}
