import type { CredentialSubstitution } from "../event/mod.ts";
import type { Destination, Injected } from "../net/port/broker.ts";
import type { Header } from "../net/message/header.ts";
import { split } from "./capture.ts";
import { REASON, refused, type Use, useOf } from "./grant.ts";
import { basicText, basicValue } from "./header.ts";
import { plainHost, type Provider, travelsIn, travelsInQuery } from "./provider.ts";
import { plainRef, REF, REF_IN_TEXT } from "./ref.ts";
import type { Vault } from "./vault.ts";

/** A ref, or what was meant as one. */
const REF_OR_LIKE = new RegExp(`${REF_IN_TEXT}|credential(?::|%3a)blake3`, "gi");
const LIKE = /credential(?::|%3a)blake3/i;

/** Puts secrets in place of refs in one request's head, or refuses the request. */
export class Injection {
  readonly #vault: Vault;
  readonly #providers: ReadonlySet<Provider>;
  readonly #to: Destination;
  readonly #signals = new Set<AbortSignal>();
  readonly substitutions: CredentialSubstitution[] = [];
  /** those that were put in */
  readonly refs = new Set<string>();

  constructor(vault: Vault, providers: ReadonlySet<Provider>, to: Destination) {
    this.#vault = vault;
    this.#providers = providers;
    this.#to = to;
  }

  /** Aborts when any of them is revoked. */
  get released(): AbortSignal | undefined {
    if (this.#signals.size < 2) return this.#signals.values().next().value;
    return AbortSignal.any([...this.#signals]);
  }

  /** @throws {CredentialDenied} for any ref that may not be used there: nothing of the request is to go out */
  headers(headers: Header[]): Injected {
    let changed: Header[] | undefined;
    for (const [at, [name, value]] of headers.entries()) {
      if (LIKE.test(name)) throw this.#misplaced(name, "the name of a header");
      const now = name === ":path" ? this.#target(value) : this.#value(name, value);
      if (now !== value) (changed ??= headers.slice())[at] = [name, now];
    }
    const { released } = this;
    return { headers: changed ?? headers, substitutions: this.substitutions, ...(released && { released }) };
  }

  /** A secret for a place other than a header. @throws {CredentialDenied} */
  use(ref: string, location: string, travels: (provider: Provider) => boolean): Use {
    const use = useOf(this.#vault, this.#providers, ref, this.#to, location, travels);
    this.#signals.add(use.signal);
    this.refs.add(ref);
    this.substitutions.push({
      provider: use.provider,
      credential_ref: ref,
      host: plainHost(this.#to.host),
      location,
      outcome: "injected",
    });
    return use;
  }

  #value(name: string, value: string): string {
    const basic = name.endsWith("authorization") ? basicText(value) : undefined;
    const text = basic ?? value;
    if (!LIKE.test(text)) return value;
    const now = this.#replace(text, name, (provider) => travelsIn(provider, name), (secret) => secret);
    return basic === undefined ? now : basicValue(now);
  }

  #target(target: string): string {
    if (!LIKE.test(target)) return target;
    const mark = target.indexOf("?");
    const path = mark < 0 ? target : target.slice(0, mark);
    if (LIKE.test(path)) throw this.#misplaced(path, "path");
    const query = target.slice(mark + 1).split("&").map((pair) => {
      const [name, value] = split(pair);
      if (LIKE.test(name)) throw this.#misplaced(name, "query");
      if (!LIKE.test(value)) return pair;
      const travels = (provider: Provider) => travelsInQuery(provider, name);
      return `${name}=${this.#replace(value, `query ${name}`, travels, encodeURIComponent)}`;
    });
    return `${path}?${query.join("&")}`;
  }

  #replace(
    text: string,
    location: string,
    travels: (provider: Provider) => boolean,
    encode: (secret: string) => string,
  ): string {
    return text.replace(REF_OR_LIKE, (match) => {
      const ref = plainRef(match).toLowerCase();
      if (!REF.test(ref)) throw this.#malformed(location);
      return encode(this.use(ref, location, travels).secret);
    });
  }

  #misplaced(text: string, location: string): Error {
    const match = new RegExp(REF_IN_TEXT, "i").exec(text)?.[0];
    if (match === undefined) return this.#malformed(location);
    try {
      this.use(plainRef(match).toLowerCase(), location, () => false);
    } catch (error) {
      return error as Error;
    }
    return this.#malformed(location);
  }

  /** What was sent is not repeated: it may be anything. */
  #malformed(location: string): Error {
    return refused({
      provider: "unknown",
      credential_ref: "malformed",
      host: plainHost(this.#to.host),
      location,
      outcome: "denied",
      reason: REASON.malformed,
    });
  }
}
