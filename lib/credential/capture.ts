import type { CredentialSubstitution } from "../event/mod.ts";
import type { Header } from "../network/mod.ts";
import type { Substituted } from "../network/interface/mod.ts";
import type { SecretMatch } from "./finder.ts";
import { isSecret } from "./form.ts";
import { REASON } from "./grant.ts";
import { headerSecret } from "./header.ts";
import {
  allowsHeader,
  allowsQuery,
  CREDENTIAL_HEADERS,
  CREDENTIAL_QUERIES,
  ownerOf,
  plainHost,
  type Provider,
} from "./provider.ts";
import { REF } from "./ref.ts";
import { providerOfToken } from "./token.ts";
import type { Vault } from "./vault.ts";

/** Replaces the secrets in one message's head with refs and adds them to the vault. */
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

  /** Replaces the secrets in fields. A ref cannot be a name, so a field whose name holds a secret is dropped. */
  headers(headers: Header[]): Substituted {
    let changed: Header[] | undefined;
    for (const [at, [name, value]] of headers.entries()) {
      const replaced = name === ":path" ? this.#replaceTarget(value) : this.#replaceValue(name, value);
      const isDropped = name !== ":path" && this.#vault.isUnclean(name) && this.#recordName(name);
      if (replaced !== value || isDropped) {
        (changed ??= headers.slice())[at] = [isDropped ? "" : name, replaced];
      }
    }
    return {
      headers: changed ? changed.filter(([name]) => name !== "") : headers,
      substitutions: this.substitutions,
    };
  }

  /** Replaces known secrets, and text shaped like one, with refs. */
  text(text: string, location: string): string {
    if (!this.#vault.isUnclean(text)) return text;
    let out = "";
    let at = 0;
    for (const match of this.#vault.finder.find(text)) {
      const ref = this.#refFor(match, location);
      if (ref === undefined) continue;
      out += text.slice(at, match.start) + ref;
      at = match.end;
    }
    return at === 0 ? text : out + text.slice(at);
  }

  /** Adds a secret to the vault and returns its ref. */
  take(provider: Provider, secret: string, location: string): string {
    const hosts = provider === "mcp" ? [this.#host] : undefined;
    const { ref, outcome } = this.#vault.learn(provider, secret, hosts);
    this.#record(provider, ref, location, outcome);
    return ref;
  }

  #replaceValue(name: string, value: string): string {
    const field = CREDENTIAL_HEADERS.has(name) || name === "proxy-authorization"
      ? headerSecret(name, value)
      : undefined;
    if (field && isSecret(field.secret) && !REF.test(field.secret)) {
      const provider = this.#providerOf(field.secret, (owner) => allowsHeader(owner, name));
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
      const secret = CREDENTIAL_QUERIES.has(name) ? decodeParameter(value) : "";
      if (isSecret(secret) && !REF.test(secret)) {
        const provider = this.#providerOf(secret, (owner) => allowsQuery(owner, name));
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
    return providerOfToken(secret) ?? (this.#owner && isAllowed(this.#owner) ? this.#owner : undefined);
  }

  #refFor({ kind, text, ref }: SecretMatch, location: string): string | undefined {
    if (kind === "ref") return undefined;
    if (kind === "token") return this.take(providerOfToken(text)!, text, location);
    this.#record(this.#vault.get(ref!)!.entry.provider, ref!, location, "known");
    return ref;
  }

  /** Records the secrets in the name of a field. @returns false for a name that only holds a ref */
  #recordName(name: string): boolean {
    const secrets = this.#vault.finder.find(name).filter(({ kind }) => kind !== "ref");
    for (const { kind, text, ref } of secrets) {
      const provider = kind === "token" ? providerOfToken(text)! : this.#vault.get(ref!)!.entry.provider;
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
