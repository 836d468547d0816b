/** What is done to bodies (contracts.md §9): secrets pass at OAuth token endpoints of their provider, and nowhere else. */
import type { CredentialSubstitution } from "../event/mod.ts";
import type { BodyFilter, BodyPlace } from "../net/port/broker.ts";
import { Capture } from "./capture.ts";
import type { Finder, Found } from "./finder.ts";
import { isSecret, jsonForm } from "./form.ts";
import { DecoyUsed, REASON, refused } from "./grant.ts";
import { Injection } from "./inject.ts";
import { plainHost, type Provider, tokenEndpointOf } from "./provider.ts";
import { latin1, StreamReplacer } from "./stream.ts";
import { providerOfToken } from "./token.ts";
import type { Vault } from "./vault.ts";

/** Longest answer of a token endpoint; they have some KB. */
export const TOKEN_BODY_MAX = 256 * 1024;
/** Most records of one body; what is done to it is done whatever their number. */
const ROWS_MAX = 32;

/**
 * What stands in a request's body for a secret or a ref, as long as that is: a length that was promised holds. A secret
 * that were put into a body could be asked back, since a model repeats what it is told; and a ref that nobody resolves
 * is never sent.
 */
export function withheld(length: number): string {
  return (length < WITHHELD.length ? WITHHELD.slice(-length) : WITHHELD).padEnd(length, "-");
}

const WITHHELD = "credential-withheld";

/** Fields of an OAuth answer that are secrets (RFC 6749, 5.1). */
const TOKEN_FIELDS = ["access_token", "refresh_token"];

/** A request's body on its way to the upstream. */
export function requestBody(vault: Vault, providers: ReadonlySet<Provider>, place: BodyPlace): BodyFilter {
  const injection = new Injection(vault, providers, place);
  const rows = new Rows(injection.substitutions);
  const endpoint = place.scheme === "https" ? tokenEndpointOf(place.host, place.path) : undefined;
  const encode = encoder(place.content_type);
  const host = plainHost(place.host);
  const replace = (found: Found): string | undefined => {
    const provider = found.ref === undefined
      ? providerOfToken(found.text)!
      : vault.get(found.ref)?.entry.provider;
    const ref = found.ref ?? vault.refOf(provider!, found.text);
    if (endpoint !== undefined && (provider ?? endpoint) === endpoint) {
      if (found.kind !== "ref") return undefined;
      return encode(injection.use(ref, "body", (owner) => owner === endpoint).secret);
    }
    const row = { provider: provider ?? "unknown", credential_ref: ref, host, location: "body" } as const;
    if (vault.get(ref)?.entry.decoy) {
      throw new DecoyUsed([{ ...row, outcome: "denied", reason: REASON.decoy }]);
    }
    rows.add({ ...row, outcome: "denied", reason: REASON.inBody });
    return withheld(found.end - found.start);
  };
  const replacer = new StreamReplacer(() => vault.finder, replace);
  return {
    push: (chunk) => replacer.push(chunk),
    end: () => replacer.end(),
    substitutions: rows.rows,
    get released() {
      return injection.released;
    },
  };
}

/**
 * A response's body on its way to the guest; `undefined` when no secret was sent to its host.
 *
 * @param sent finds the secrets that were
 */
export function responseBody(vault: Vault, place: BodyPlace, sent?: Finder): BodyFilter | undefined {
  const provider = place.scheme === "https" ? tokenEndpointOf(place.host, place.path) : undefined;
  if (provider !== undefined) return new TokenBody(vault, provider, place);
  if (!sent) return undefined;
  const rows = new Rows();
  const replacer = new StreamReplacer(() => sent, ({ ref }) => {
    const owner = vault.get(ref!)!.entry.provider;
    rows.add({
      provider: owner,
      credential_ref: ref!,
      host: plainHost(place.host),
      location: "response body",
      outcome: "brokered",
    });
    return ref;
  });
  return { push: (chunk) => replacer.push(chunk), end: () => replacer.end(), substitutions: rows.rows };
}

/** The answer of a token endpoint, JSON or a form: the guest gets refs of its tokens. It is read whole. */
class TokenBody implements BodyFilter {
  readonly #capture: Capture;
  readonly #provider: Provider;
  readonly #place: BodyPlace;
  #text = "";

  constructor(vault: Vault, provider: Provider, place: BodyPlace) {
    this.#capture = new Capture(vault, place.host);
    this.#provider = provider;
    this.#place = place;
  }

  get substitutions(): readonly CredentialSubstitution[] {
    return this.#capture.substitutions;
  }

  push(chunk: Uint8Array): Uint8Array {
    if (this.#text.length + chunk.length > TOKEN_BODY_MAX) {
      throw refused({
        provider: this.#provider,
        credential_ref: "none",
        host: plainHost(this.#place.host),
        location: "response body",
        outcome: "error",
        reason: `an OAuth answer of over ${TOKEN_BODY_MAX} bytes`,
      });
    }
    this.#text += latin1(chunk);
    return new Uint8Array(0);
  }

  end(): Uint8Array {
    let text = this.#text;
    for (const [secret, written] of tokensOf(text)) {
      text = text.replaceAll(written, this.#capture.take(this.#provider, secret, "response body"));
    }
    return Uint8Array.from(this.#capture.text(text, "response body"), (char) => char.charCodeAt(0));
  }
}

/** The tokens of an OAuth answer, and how each is written in it. */
function tokensOf(text: string): Map<string, string> {
  const tokens = new Map<string, string>();
  const add = (value: unknown, written: (secret: string) => string) => {
    if (typeof value === "string" && isSecret(value)) tokens.set(value, written(value));
  };
  try {
    const body = JSON.parse(text);
    for (const field of TOKEN_FIELDS) add(body?.[field], jsonForm);
  } catch {
    const body = new URLSearchParams(text);
    for (const field of TOKEN_FIELDS) add(body.get(field), (secret) => secret);
  }
  return tokens;
}

/** How a secret is written in a body of this type. */
function encoder(contentType = ""): (secret: string) => string {
  return contentType.toLowerCase().includes("json") ? jsonForm : encodeURIComponent;
}

/** Rows of one body, each once. */
class Rows {
  readonly rows: CredentialSubstitution[];
  readonly #seen = new Set<string>();

  constructor(rows: CredentialSubstitution[] = []) {
    this.rows = rows;
  }

  add(row: CredentialSubstitution): void {
    const key = `${row.credential_ref} ${row.outcome}`;
    if (this.#seen.has(key) || this.#seen.size >= ROWS_MAX) return;
    this.#seen.add(key);
    this.rows.push(row);
  }
}
