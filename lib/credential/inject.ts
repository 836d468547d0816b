import type { CredentialSubstitution } from "../event/mod.ts";
import type { Header } from "../network/mod.ts";
import type { Injected } from "../network/interface/mod.ts";
import { splitPair } from "./capture.ts";
import { deniedError, type Grant, grantSecret, type GrantTo, REASON } from "./grant.ts";
import { basicText, basicValue } from "./header.ts";
import { allowsHeader, allowsQuery, plainHost, type Provider } from "./provider.ts";
import { plainRef, REF, REF_IN_TEXT } from "./ref.ts";
import type { Vault } from "./vault.ts";

/** A ref, or an attempt at one. */
const REF_OR_LIKE = new RegExp(`${REF_IN_TEXT}|credential(?::|%3a)blake3`, "gi");
const LIKE = /credential(?::|%3a)blake3/i;

/** Replaces refs in one request's head with secrets, or refuses the request. */
export class Injection {
  readonly #vault: Vault;
  readonly #providers: ReadonlySet<Provider>;
  readonly #to: GrantTo;
  readonly #signals = new Set<AbortSignal>();
  readonly substitutions: CredentialSubstitution[] = [];
  /** refs replaced so far */
  readonly refs = new Set<string>();

  constructor(vault: Vault, providers: ReadonlySet<Provider>, to: GrantTo) {
    this.#vault = vault;
    this.#providers = providers;
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
    for (const [at, [name, value]] of headers.entries()) {
      if (LIKE.test(name)) throw this.#misplacedError(name, "the name of a header");
      const replaced = name === ":path" ? this.#replaceTarget(value) : this.#replaceValue(name, value);
      if (replaced !== value) (changed ??= headers.slice())[at] = [name, replaced];
    }
    const { released } = this;
    return { headers: changed ?? headers, substitutions: this.substitutions, ...(released && { released }) };
  }

  /** Grants one secret and records its use. @throws {CredentialDenied} for a refused ref */
  use(ref: string, location: string, isAllowed: (provider: Provider) => boolean): Grant {
    const grant = grantSecret(this.#vault, this.#providers, ref, this.#to, location, isAllowed);
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
      (provider) => allowsHeader(provider, name),
      (secret) => secret,
    );
    return basic === undefined ? replaced : basicValue(replaced);
  }

  #replaceTarget(target: string): string {
    if (!LIKE.test(target)) return target;
    const mark = target.indexOf("?");
    const path = mark < 0 ? target : target.slice(0, mark);
    if (LIKE.test(path)) throw this.#misplacedError(path, "path");
    const query = target.slice(mark + 1).split("&").map((pair) => {
      const [name, value] = splitPair(pair);
      if (LIKE.test(name)) throw this.#misplacedError(name, "query");
      if (!LIKE.test(value)) return pair;
      const isAllowed = (provider: Provider) => allowsQuery(provider, name);
      return `${name}=${this.#replace(value, `query ${name}`, isAllowed, encodeURIComponent)}`;
    });
    return `${path}?${query.join("&")}`;
  }

  #replace(
    text: string,
    location: string,
    isAllowed: (provider: Provider) => boolean,
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
