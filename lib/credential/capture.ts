import type { CredentialSubstitution } from "../event/mod.ts";
import type { Substituted } from "../net/port/broker.ts";
import type { Header } from "../net/message/header.ts";
import { isSecret } from "./form.ts";
import type { Found } from "./finder.ts";
import { REASON } from "./grant.ts";
import { headerSecret } from "./header.ts";
import {
  CREDENTIAL_HEADERS,
  CREDENTIAL_QUERIES,
  ownerOf,
  plainHost,
  type Provider,
  travelsIn,
  travelsInQuery,
} from "./provider.ts";
import { REF } from "./ref.ts";
import { providerOfToken } from "./token.ts";
import type { Vault } from "./vault.ts";

/** Takes the secrets of one message's head and leaves refs in their places. */
export class Capture {
  readonly #vault: Vault;
  readonly #host: string;
  readonly #owner: Provider | undefined;
  readonly substitutions: CredentialSubstitution[] = [];

  constructor(vault: Vault, host: string) {
    this.#vault = vault;
    this.#host = plainHost(host);
    this.#owner = ownerOf(host) ?? (vault.isBound(host) ? "mcp" : undefined);
  }

  headers(headers: Header[]): Substituted {
    let changed: Header[] | undefined;
    for (const [at, [name, value]] of headers.entries()) {
      const now = name === ":path" ? this.#target(value) : this.#value(name, value);
      if (now !== value) (changed ??= headers.slice())[at] = [name, now];
    }
    return { headers: changed ?? headers, substitutions: this.substitutions };
  }

  /** Text with refs in place of what is a secret or looks like one. */
  text(text: string, location: string): string {
    let out = "";
    let at = 0;
    for (const found of this.#vault.finder.find(text)) {
      const put = this.#putFor(found, location);
      if (put === undefined) continue;
      out += text.slice(at, found.start) + put;
      at = found.end;
    }
    return at === 0 ? text : out + text.slice(at);
  }

  /** The ref of a secret, which is known from now on. */
  take(provider: Provider, secret: string, location: string): string {
    const hosts = provider === "mcp" ? [this.#host] : undefined;
    const { ref, outcome } = this.#vault.learn(provider, secret, hosts);
    this.#note(provider, ref, location, outcome);
    return ref;
  }

  #value(name: string, value: string): string {
    const given = CREDENTIAL_HEADERS.has(name) || name === "proxy-authorization"
      ? headerSecret(name, value)
      : undefined;
    if (given && isSecret(given.secret) && !REF.test(given.secret)) {
      const provider = this.#providerOf(given.secret, (owner) => travelsIn(owner, name));
      if (provider) return given.with(this.take(provider, given.secret, name));
    }
    return this.text(value, name);
  }

  /** A path with its query: parameters in which keys travel, and whatever looks like one. */
  #target(target: string): string {
    const mark = target.indexOf("?");
    if (mark < 0) return this.text(target, "path");
    const query = target.slice(mark + 1).split("&").map((pair) => {
      const [name, value] = split(pair);
      const secret = CREDENTIAL_QUERIES.has(name) ? decoded(value) : "";
      if (isSecret(secret) && !REF.test(secret)) {
        const provider = this.#providerOf(secret, (owner) => travelsInQuery(owner, name));
        if (provider) return `${name}=${this.take(provider, secret, `query ${name}`)}`;
      }
      return this.text(pair, "query");
    });
    return `${this.text(target.slice(0, mark), "path")}?${query.join("&")}`;
  }

  /** Whose secret it is: as it is known, by its shape, or else the host's owner's, who gets it. */
  #providerOf(secret: string, travels: (owner: Provider) => boolean): Provider | undefined {
    const ref = this.#vault.refOfSecret(secret);
    if (ref !== undefined) return this.#vault.get(ref)!.entry.provider;
    return providerOfToken(secret) ?? (this.#owner && travels(this.#owner) ? this.#owner : undefined);
  }

  #putFor({ kind, text, ref }: Found, location: string): string | undefined {
    if (kind === "ref") return undefined;
    if (kind === "token") return this.take(providerOfToken(text)!, text, location);
    this.#note(this.#vault.get(ref!)!.entry.provider, ref!, location, "known");
    return ref;
  }

  #note(provider: Provider, ref: string, location: string, outcome: "known" | "new" | "full"): void {
    const row = { provider, credential_ref: ref, host: this.#host, location };
    this.substitutions.push(
      outcome === "full"
        ? { ...row, outcome: "error", reason: REASON.tooMany }
        : { ...row, outcome: outcome === "new" ? "captured" : "brokered" },
    );
  }
}

/** Name and value of `name=value`. */
export function split(pair: string): [string, string] {
  const at = pair.indexOf("=");
  return at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value.replaceAll("+", " "));
  } catch {
    return value;
  }
}
