/**
 * Replaces secrets by refs in the head of a captured message, and refs by secrets in the head of a request.
 */
import type { CredentialSubstitution } from "../event/mod.ts";
import type { Header } from "../network/mod.ts";
import type { Injected, Substituted } from "../network/interface/mod.ts";
import type { SecretMatch } from "./finder.ts";
import { isSecret } from "./form.ts";
import { plainRef, REF, REF_IN_TEXT } from "./ref.ts";
import {
  codingKey,
  deniedError,
  type Grant,
  grantSecret,
  type GrantTo,
  type IsAllowed,
  REASON,
} from "./grant.ts";
import { plainHost } from "../base/address/mod.ts";
import type { Provider } from "./provider.ts";
import type { Form } from "./catalogue.ts";
import type { OfferedLogin } from "./entry.ts";
import type { Vault } from "./vault.ts";
import { Buffer } from "node:buffer";

/** Most codings that are kept until their heads are refused. */
const CODINGS_MAX = 100;

/** Replaces the secrets in one message's head with refs and adds them to the vault. */
export class Capture {
  readonly #vault: Vault;
  readonly #host: string;
  readonly #owner: Provider | undefined;
  readonly substitutions: CredentialSubstitution[] = [];

  constructor(vault: Vault, host: string) {
    this.#vault = vault;
    this.#host = plainHost(host);
    this.#owner = vault.providerAt(host);
  }

  /**
   * Replaces the secrets in fields. A ref cannot be a name, so a field whose name holds a secret is dropped.
   */
  headers(headers: Header[]): Substituted {
    let changed: Header[] | undefined;
    for (const [at, [name, value]] of headers.entries()) {
      const replaced = name === ":path" ? this.#replaceTarget(value) : this.#replaceValue(name, value);
      const isUnclean = name !== ":path" && this.#vault.isUnclean(name);
      const decoy = isUnclean ? this.#decoyIn(name) : undefined;
      const isDropped = isUnclean && decoy === undefined && this.#recordName(name);
      if (replaced !== value || isDropped || decoy !== undefined) {
        (changed ??= headers.slice())[at] = [decoy ?? (isDropped ? "" : name), replaced];
      }
    }
    return {
      headers: changed ? changed.filter(([name]) => name !== "") : headers,
      substitutions: this.substitutions,
    };
  }

  /** The ref of a decoy in the name of a field, which is refused like any ref there. */
  #decoyIn(name: string): string | undefined {
    for (const match of this.#vault.finder.find(name)) {
      const ref = this.#decoyOf(match);
      if (ref !== undefined) return ref;
    }
  }

  /** Replaces known secrets, and text shaped like one, with refs. */
  text(text: string, location: string): string {
    if (!this.#vault.isUnclean(text)) return text;
    let out = "";
    let at = 0;
    for (const match of this.#vault.finder.find(text)) {
      const ref = this.#decoyOf(match) ?? this.#refFor(match, location);
      if (ref === undefined) continue;
      out += text.slice(at, match.start) + ref;
      at = match.end;
    }
    return at === 0 ? text : out + text.slice(at);
  }

  /** Adds a secret to the vault and returns its ref. */
  take(provider: Provider, secret: string, location: string, offer?: OfferedLogin): string {
    const { catalogue } = this.#vault;
    // A host that no provider owns is the place of a key only where a person named it.
    const isNamed = provider === "mcp" || catalogue.ownerOf(this.#host) === undefined &&
        this.#vault.boundTo(this.#host) === provider;
    const hosts = isNamed ? [this.#host] : undefined;
    const { ref, outcome } = this.#vault.learn(provider, secret, {
      ...(hosts && { hosts }),
      ...(offer && { offer }),
    });
    this.#record(provider, ref, location, outcome);
    return ref;
  }

  #replaceValue(name: string, value: string): string {
    const field = this.#vault.catalogue.headers.has(name) || name === "proxy-authorization"
      ? headerSecret(name, value)
      : undefined;
    if (field && isSecret(field.secret) && !REF.test(field.secret)) {
      const provider = this.#providerOf(
        field.secret,
        (owner) => this.#vault.catalogue.allowsHeader(owner, name, field.form),
      );
      if (provider) return field.with(this.take(provider, field.secret, name));
    }
    return this.text(value, name);
  }

  /** Replaces secrets in a path and its query: parameters that carry keys, and text shaped like a secret. */
  #replaceTarget(target: string): string {
    const mark = target.indexOf("?");
    if (mark < 0) return this.text(target, "path");
    const query = target.slice(mark + 1).split("&").map((pair) => {
      const [name, value] = splitPair(pair);
      const secret = this.#vault.catalogue.queries.has(name) ? decodeParameter(value) : "";
      if (isSecret(secret) && !REF.test(secret)) {
        const provider = this.#providerOf(
          secret,
          (owner) => this.#vault.catalogue.allowsQuery(owner, name),
        );
        if (provider) return `${name}=${this.take(provider, secret, `query ${name}`)}`;
      }
      return this.text(pair, "query");
    });
    return `${this.text(target.slice(0, mark), "path")}?${query.join("&")}`;
  }

  /** Provider of a secret: from the vault, by its shape, or else the owner of the host. */
  #providerOf(secret: string, isAllowed: (owner: Provider) => boolean): Provider | undefined {
    const ref = this.#vault.refOfSecret(secret);
    if (ref !== undefined) return this.#vault.get(ref)!.entry.provider;
    const isOwners = this.#owner !== undefined && isAllowed(this.#owner);
    // A key whose shape several providers share belongs to the one that it is sent to.
    if (isOwners && this.#vault.catalogue.shapes.isLoose(secret)) return this.#owner;
    const shaped = this.#vault.shaped(secret);
    if (shaped !== undefined && this.#stays(shaped)) return undefined;
    return shaped ??
      (isOwners && this.#vault.takes(this.#owner!) ? this.#owner : undefined);
  }

  /** The ref of a decoy in any coding: the injection finds it, and refuses the request. */
  #decoyOf({ ref, coding }: SecretMatch): string | undefined {
    if (ref === undefined || !this.#vault.isDecoy(ref)) return undefined;
    const { codings } = this.#vault;
    if (codings.size >= CODINGS_MAX) codings.clear();
    if (coding !== undefined) codings.set(codingKey(ref, this.#host), coding);
    return ref;
  }

  #refFor({ kind, text, ref }: SecretMatch, location: string): string | undefined {
    if (kind === "ref") return undefined;
    if (kind === "token") {
      const provider = this.#vault.shaped(text)!;
      return this.#stays(provider) ? undefined : this.take(provider, text, location);
    }
    this.#record(this.#vault.get(ref!)!.entry.provider, ref!, location, "known");
    return ref;
  }

  /**
   * True for a VM's own key of a service that runs at hosts of its users, where no credential names this
   * host: it may be such a host, and the VM uses its key there as it could without sbx.
   */
  #stays(provider: Provider): boolean {
    const { catalogue } = this.#vault;
    return this.#owner === undefined && catalogue.namesHosts(provider) && !this.#vault.takes(provider);
  }

  /** Records the secrets in the name of a field. @returns false for a name that only holds a ref */
  #recordName(name: string): boolean {
    const secrets = this.#vault.finder.find(name).filter(({ kind }) => kind !== "ref");
    for (const { kind, text, ref } of secrets) {
      const provider = kind === "token" ? this.#vault.shaped(text)! : this.#vault.get(ref!)!.entry.provider;
      this.substitutions.push({
        provider,
        credential_ref: ref ?? this.#vault.refOf(provider, text),
        host: this.#host,
        location: "the name of a header",
        outcome: "denied",
        reason: REASON.wrongPlace,
      });
    }
    return secrets.length > 0;
  }

  #record(provider: Provider, ref: string, location: string, outcome: "known" | "new" | "full"): void {
    const row = { provider, credential_ref: ref, host: this.#host, location };
    this.substitutions.push(
      outcome === "full"
        ? { ...row, outcome: "error", reason: REASON.tooMany }
        : { ...row, outcome: outcome === "new" ? "captured" : "brokered" },
    );
  }
}

/** Splits `name=value`. */
export function splitPair(pair: string): [string, string] {
  const at = pair.indexOf("=");
  return at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
}

function decodeParameter(value: string): string {
  try {
    return decodeURIComponent(value.replaceAll("+", " "));
  } catch {
    return value;
  }
}

/** A ref in place of a user's name. */
const REF_FIRST = new RegExp(`^${REF_IN_TEXT}`, "i");

/** Secret in a header value. */
interface HeaderSecret {
  secret: string;
  /** scheme, `bare` for a value that is the secret alone, or the half of a Basic header */
  form: Form;
  /** the header value with `other` in place of the secret */
  with(other: string): string;
}

/** Passwords git sends when the user name is the token. */
const NO_PASSWORD = new Set(["", "x-oauth-basic", "x"]);

/** Extracts the secret of a header value; `undefined` for an unknown format. */
function headerSecret(name: string, value: string): HeaderSecret | undefined {
  const basic = basicText(value);
  if (basic !== undefined) {
    // A ref in place of the user has colons itself.
    const colon = basic.indexOf(":", REF_FIRST.exec(basic)?.[0].length ?? 0);
    const [user, password] = colon < 0 ? [basic, ""] : [basic.slice(0, colon), basic.slice(colon + 1)];
    const inUser = NO_PASSWORD.has(password);
    return {
      secret: inUser ? user : password,
      form: inUser ? "basic user" : "basic password",
      with: (other) => basicValue(inUser ? `${other}:${password}` : `${user}:${other}`),
    };
  }
  const [, prefix, scheme, secret] = /^(\s*(bearer|token)\s+)(\S+)\s*$/i.exec(value) ?? [];
  if (secret !== undefined) {
    return { secret, form: scheme.toLowerCase(), with: (other) => prefix + other };
  }
  if (name.endsWith("authorization")) return undefined;
  return { secret: value.trim(), form: "bare", with: (other) => other };
}

/** `user:password` of a Basic header, one character per byte; `undefined` for any other header. */
export function basicText(value: string): string | undefined {
  const encoded = /^\s*basic\s+([A-Za-z0-9+/=_-]+)\s*$/i.exec(value)?.[1];
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("latin1");
}

/** Value of a Basic header. */
function basicValue(text: string): string {
  return `Basic ${Buffer.from(text, "latin1").toString("base64")}`;
}

/** A ref, or an attempt at one. */
const REF_OR_LIKE = new RegExp(`${REF_IN_TEXT}|credential(?::|%3a)blake3`, "gi");
const LIKE = /credential(?::|%3a)blake3/i;

/** A path with a ref, and what stands before and behind it. */
const PATH_WITH_REF = new RegExp(`^(.*?)(${REF_IN_TEXT})(/.*)$`, "i");

/** A key in a path; servers know colons as they are. */
function encodePathKey(secret: string): string {
  return encodeURIComponent(secret).replaceAll("%3A", ":");
}

/** Form that a ref has in a header. @param basic `user:password` of a Basic header */
function formOf(value: string, basic: string | undefined): Form {
  if (basic !== undefined) {
    const user = REF_FIRST.exec(basic)?.[0];
    return user !== undefined && /^(?::|$)/.test(basic.slice(user.length)) ? "basic user" : "basic password";
  }
  const words = value.trim().split(/\s+/);
  return words.length === 1 ? "bare" : words.length === 2 ? words[0].toLowerCase() : "other";
}

/** Replaces refs in one request's head with secrets, or refuses the request. */
export class Injection {
  readonly #vault: Vault;
  #to: GrantTo;
  readonly #signals = new Set<AbortSignal>();
  readonly substitutions: CredentialSubstitution[] = [];
  /** refs replaced so far */
  readonly refs = new Set<string>();

  constructor(vault: Vault, to: GrantTo) {
    this.#vault = vault;
    this.#to = to;
  }

  /** Signal that aborts when any of the refs is revoked. */
  get released(): AbortSignal | undefined {
    if (this.#signals.size < 2) return this.#signals.values().next().value;
    return AbortSignal.any([...this.#signals]);
  }

  /** @throws {CredentialDenied} for any refused ref: no part of the request may be sent */
  headers(headers: Header[]): Injected {
    let changed: Header[] | undefined;
    const target = headers.find(([name]) => name === ":path")?.[1];
    this.#to = { ...this.#to, path: target?.split("?")[0], target };
    for (const [at, [name, value]] of headers.entries()) {
      if (LIKE.test(name)) throw this.#misplacedError(name, "the name of a header");
      const replaced = name === ":path" ? this.#replaceTarget(value) : this.#replaceValue(name, value);
      if (replaced !== value) (changed ??= headers.slice())[at] = [name, replaced];
    }
    const { released } = this;
    return { headers: changed ?? headers, substitutions: this.substitutions, ...(released && { released }) };
  }

  /** Grants one secret and records its use. @throws {CredentialDenied} for a refused ref */
  use(ref: string, location: string, isAllowed: IsAllowed): Grant {
    const grant = grantSecret(this.#vault, ref, this.#to, location, isAllowed);
    this.#signals.add(grant.signal);
    this.refs.add(ref);
    this.substitutions.push({
      provider: grant.provider,
      credential_ref: ref,
      host: plainHost(this.#to.host),
      location,
      outcome: "injected",
    });
    return grant;
  }

  #replaceValue(name: string, value: string): string {
    const basic = name.endsWith("authorization") ? basicText(value) : undefined;
    const text = basic ?? value;
    if (!LIKE.test(text)) return value;
    const replaced = this.#replace(
      text,
      name,
      (provider, catalogue) => catalogue.allowsHeader(provider, name, formOf(value, basic)),
      (secret) => secret,
    );
    return basic === undefined ? replaced : basicValue(replaced);
  }

  #replaceTarget(target: string): string {
    if (!LIKE.test(target)) return target;
    const mark = target.indexOf("?");
    const path = this.#replacePath(mark < 0 ? target : target.slice(0, mark));
    if (mark < 0) return path;
    const query = target.slice(mark + 1).split("&").map((pair) => {
      const [name, value] = splitPair(pair);
      if (LIKE.test(name)) throw this.#misplacedError(name, "query");
      if (!LIKE.test(value)) return pair;
      const isAllowed: IsAllowed = (provider, catalogue) => catalogue.allowsQuery(provider, name);
      return `${name}=${this.#replace(value, `query ${name}`, isAllowed, encodeURIComponent)}`;
    });
    return `${path}?${query.join("&")}`;
  }

  /** Replaces a ref that a whole part of a path ends with, where keys of its provider travel in paths. */
  #replacePath(path: string): string {
    if (!LIKE.test(path)) return path;
    const [, before, ref, rest] = PATH_WITH_REF.exec(path) ?? [];
    if (ref === undefined || LIKE.test(rest)) throw this.#misplacedError(path, "path");
    const isAllowed: IsAllowed = (provider, catalogue) => catalogue.allowsPath(provider, before);
    return before + this.#replace(ref, "path", isAllowed, encodePathKey) + rest;
  }

  #replace(
    text: string,
    location: string,
    isAllowed: IsAllowed,
    encode: (secret: string) => string,
  ): string {
    return text.replace(REF_OR_LIKE, (match) => {
      const ref = plainRef(match).toLowerCase();
      if (!REF.test(ref)) throw this.#malformedError(location);
      return encode(this.use(ref, location, isAllowed).secret);
    });
  }

  #misplacedError(text: string, location: string): Error {
    const match = new RegExp(REF_IN_TEXT, "i").exec(text)?.[0];
    if (match === undefined) return this.#malformedError(location);
    try {
      this.use(plainRef(match).toLowerCase(), location, () => false);
    } catch (error) {
      return error as Error;
    }
    return this.#malformedError(location);
  }

  /** Error for a malformed ref; the text is not repeated, since it may hold anything. */
  #malformedError(location: string): Error {
    return deniedError({
      provider: "unknown",
      credential_ref: "malformed",
      host: plainHost(this.#to.host),
      location,
      outcome: "denied",
      reason: REASON.malformed,
    });
  }
}
